import { Context, Effect, Layer, Option } from "effect"
import type { SessionId } from "../../domain/conversation/Session.ts"
import { completed, type Llm, overridden } from "../../domain/llm/Llm.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { Environment } from "../agent/Environment.ts"
import { SessionLlms } from "../ports/storage/SessionLlms.ts"
import { Providers } from "../ports/vendor/Providers.ts"
import { plain } from "./LlmCatalog.ts"

/** The settings by which a session's answers are made: those of the agent, with the session's own choice over them. */
export class EffectiveLlm extends Context.Service<
  EffectiveLlm,
  {
    /**
     * `llm` is what the agent's configuration says, expanded. A key or address that it leaves open is that of `.env`; the
     * key is empty where there is none, or where the stored one is for another host (decisions 10).
     */
    readonly of: (workspace: OrganizationId, llm: Llm, session: SessionId | undefined) => Effect.Effect<Llm>
  }
>()("gateway/llm/EffectiveLlm") {
  static readonly layer = Layer.effect(
    EffectiveLlm,
    Effect.gen(function* () {
      const sessions = yield* SessionLlms
      const environment = yield* Environment
      const { vendors } = yield* Providers

      return EffectiveLlm.of({
        of: Effect.fn("EffectiveLlm.of")(function* (workspace, llm, session) {
          const variables = plain(yield* environment.variables(workspace))
          const override = session === undefined ? Option.none() : yield* sessions.find(workspace, session)
          const chosen = Option.match(override, {
            onNone: () => llm,
            onSome: (own) => overridden(llm, own, variables)
          })
          return completed(chosen, vendors, variables)
        })
      })
    })
  )
}
