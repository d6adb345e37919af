import { Schema } from "effect"
import type { AccessMethod } from "../catalog/AccessMethod.ts"
import { OrganizationId } from "../shared/Ids.ts"

/** A model provider as keys are stored for it: `openai`, `anthropic`, `google`, … */
export const ProviderName = Schema.String.check(
  Schema.isPattern(/^[a-z][a-z0-9-]{0,62}$/, { expected: "1 to 63 of a-z, 0-9 and -, starting with a letter" })
).pipe(Schema.brand("ProviderName"))
export type ProviderName = typeof ProviderName.Type

/** The access methods that take the organization's own key (section 2.1). */
export type OwnKeyMethod = Exclude<AccessMethod, "service">

/** Whose key each of them takes. */
const providers: { readonly [Method in OwnKeyMethod]: ProviderName } = {
  "vendor-a-api-key": ProviderName.make("anthropic"),
  "vendor-b-api-key": ProviderName.make("openai"),
  "vendor-b-chat": ProviderName.make("openai-chat")
}

/** The provider whose key an access method takes; undefined for `service`, which takes none of the organization's. */
export const providerOf = (method: AccessMethod): ProviderName | undefined =>
  method === "service" ? undefined : providers[method]

/** The access method that a key of this provider opens, if any. */
export const methodOf = (provider: ProviderName): OwnKeyMethod | undefined => {
  switch (provider) {
    case providers["vendor-a-api-key"]:
      return "vendor-a-api-key"
    case providers["vendor-b-api-key"]:
      return "vendor-b-api-key"
    case providers["vendor-b-chat"]:
      return "vendor-b-chat"
    default:
      return undefined
  }
}

/** The variables that are not called after their provider: a subscription's key is an access token. */
const irregular: ReadonlyMap<string, string> = new Map([
  ["openai-chat", "OPENAI_CHAT_TOKEN"],
  ["moonshotai", "MOONSHOT_API_KEY"]
])

/** The variable of `.env` that has a provider's key: of `openai` `OPENAI_API_KEY`. */
export const variableOf = (provider: ProviderName): string =>
  irregular.get(provider) ?? `${provider.toUpperCase().replaceAll("-", "_")}_API_KEY`

/** The provider whose key a variable has; undefined for one that has none. */
export const providerOfVariable = (variable: string): ProviderName | undefined => {
  const known = [...irregular].find(([, own]) => own === variable)?.[0]
  const name =
    known ??
    variable
      .replace(/_API_KEY$/, "")
      .toLowerCase()
      .replaceAll("_", "-")
  return isProviderName(name) && variableOf(name) === variable ? name : undefined
}

const isProviderName = Schema.is(ProviderName)

/** What a provider's key may be: it travels in a header, and is at most 4 KB (decisions 3). */
export const ProviderKeyText = Schema.String.check(Schema.isPattern(/^[!-~]{1,4096}$/))

/**
 * A provider's key that an organization has stored, as it is shown: never its text. An organization has at most one of
 * each provider.
 */
export class ProviderKey extends Schema.Class<ProviderKey>("ProviderKey")({
  organizationId: OrganizationId,
  provider: ProviderName,
  /** The last characters of the key's text. */
  hint: Schema.String
}) {}

/** The last four characters, as providers show them too; nothing of a text so short that they would give it away. */
export const hintOf = (text: string): string => (text.length < 16 ? "" : text.slice(-4))
