import { Context, type Effect, type Option } from "effect"
import type { CustomPrompt, Prompt } from "../../../domain/prompt/Prompt.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/** Where workspaces keep the prompts that their users made: one of each name. */
export class CustomPrompts extends Context.Service<
  CustomPrompts,
  {
    /** Whether it was stored: not if there is one of its name. */
    readonly insert: (workspace: OrganizationId, prompt: CustomPrompt) => Effect.Effect<boolean>
    readonly find: (workspace: OrganizationId, name: string) => Effect.Effect<Option.Option<CustomPrompt>>
    /** In the order of their names, without their texts: those may be long. */
    readonly list: (workspace: OrganizationId) => Effect.Effect<ReadonlyArray<Prompt>>
    /** The id of what was removed; none if there was no such prompt. */
    readonly remove: (workspace: OrganizationId, name: string) => Effect.Effect<Option.Option<string>>
  }
>()("gateway/ports/storage/CustomPrompts") {}
