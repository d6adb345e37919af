import type { OwnKeyMethod } from "../../../domain/identity/ProviderKey.ts"
import type { Driver } from "../Driver.ts"
import { anthropic } from "./Anthropic.ts"
import { openAi } from "./OpenAi.ts"
import { openAiChatSubscription } from "./OpenAiChatSubscription.ts"

/** How organizations reach a vendor with keys of their own. */
export interface OwnKeyForm {
  readonly method: OwnKeyMethod
  readonly driver: Driver
  /** Whose models of the packaged catalogue it reaches; they have the driver's prefix. */
  readonly provider: string
  /** The provider of which these are the same models, where the ids are. */
  readonly joins?: string
}

/**
 * The access methods with an organization's own key, in the order in which they are preferred. To add one: a line here.
 * A driver that is not in `drivers` as well is reached with own keys only.
 */
export const ownKeyForms: ReadonlyArray<OwnKeyForm> = [
  { method: "vendor-a-api-key", driver: anthropic, provider: anthropic.id },
  { method: "vendor-b-api-key", driver: openAi, provider: openAi.id },
  { method: "vendor-b-chat", driver: openAiChatSubscription, provider: "openai-codex", joins: openAi.id }
]
