import { Context, Effect, Layer, Option } from "effect"
import { Authenticate } from "../../../application/identity/Authenticate.ts"
import { defaultOrganization } from "../../../application/identity/FirstStart.ts"
import { Organizations } from "../../../application/ports/storage/Organizations.ts"
import { InvalidApiKey } from "../../../domain/identity/IdentityErrors.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { RuntimeAccess } from "./RuntimeAccess.ts"

/** On whose workspace somebody works who uses the runtime, by whatever way he came (decisions 1). */
export class Admission extends Context.Service<
  Admission,
  {
    /** The workspace of a key; while the runtime is open, of none too: "". */
    readonly workspaceOf: (key: string) => Effect.Effect<CurrentWorkspace["Service"], InvalidApiKey>
  }
>()("gateway/http/Admission") {
  static readonly layer = Layer.effect(
    Admission,
    Effect.gen(function* () {
      const authenticate = yield* Authenticate
      const organizations = yield* Organizations
      const access = yield* RuntimeAccess
      /** Never deleted, so it is looked up until it is there: an embedded store makes it while it starts. */
      let openTo: Option.Option<CurrentWorkspace["Service"]> = Option.none()

      const workspaceOf = Effect.fnUntraced(function* (key: string) {
        if (key !== "" || !access.open) {
          const caller = yield* authenticate.byKey(key)
          return CurrentWorkspace.of({ id: caller.organizationId, caller })
        }
        if (Option.isNone(openTo)) {
          const found = yield* organizations.findByName(defaultOrganization)
          openTo = Option.map(found, ({ id }) => ({ id, caller: undefined }))
        }
        if (Option.isSome(openTo)) return openTo.value
        return yield* new InvalidApiKey({ reason: "missing" })
      })

      return Admission.of({ workspaceOf })
    })
  )
}
