import { Array, Effect, Layer, Option } from "effect"
import { Organizations } from "../../application/ports/storage/Organizations.ts"
import { NameTaken } from "../../domain/identity/IdentityErrors.ts"
import { zero } from "../../domain/shared/Money.ts"
import { oldestFirst } from "./Oldest.ts"
import { State } from "./State.ts"

export const layer = Layer.effect(
  Organizations,
  Effect.gen(function* () {
    const { accounts, organizations } = yield* State
    const findByName = (name: string) => Array.findFirst(organizations.values(), (other) => other.name === name)

    return Organizations.of({
      insert: (organization) =>
        Effect.suspend(() => {
          const { id, name } = organization
          if (organizations.has(id) || findByName(name)._tag === "Some") {
            return Effect.fail(new NameTaken({ kind: "organization", name }))
          }
          organizations.set(id, organization)
          accounts.set(id, { balance: zero, held: zero, entries: [] })
          return Effect.void
        }),
      findById: (id) => Effect.sync(() => Option.fromUndefinedOr(organizations.get(id))),
      findByName: (name) => Effect.sync(() => findByName(name)),
      list: Effect.sync(() => oldestFirst(organizations.values()))
    })
  })
)
