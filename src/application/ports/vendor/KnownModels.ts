import { Context } from "effect"

/** What an agent's `llm` may name (decisions 4 and 5). Asked whenever a configuration is read, so it is in memory. */
export class KnownModels extends Context.Service<
  KnownModels,
  {
    /** By identifier, in the order in which a message lists them. */
    readonly providers: ReadonlyMap<string, KnownProvider>
  }
>()("gateway/ports/vendor/KnownModels") {}

export interface KnownProvider {
  /** The variable of `.env` with its key; undefined when it needs none. */
  readonly keyVariable: string | undefined
  /** Undefined when it takes any model. */
  readonly models: ReadonlyMap<string, { readonly maxInputTokens: number | undefined }> | undefined
}
