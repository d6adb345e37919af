import { Array, Effect, Layer } from "effect"
import { Members } from "../../application/ports/storage/Members.ts"
import { NameTaken } from "../../domain/identity/IdentityErrors.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { oldestFirst } from "./Oldest.ts"
import { State } from "./State.ts"

export const layer = Layer.effect(
  Members,
  Effect.gen(function* () {
    const { members, organizations } = yield* State
    const of = (organization: OrganizationId) =>
      Array.filter(members.values(), ({ organizationId }) => organizationId === organization)

    return Members.of({
      insert: (member) =>
        Effect.suspend(() => {
          const { id, name, organizationId } = member
          if (!organizations.has(organizationId)) return Effect.die(new Error(`no organization ${organizationId}`))
          if (members.has(id) || of(organizationId).some((other) => other.name === name)) {
            return Effect.fail(new NameTaken({ kind: "member", name }))
          }
          members.set(id, member)
          return Effect.void
        }),
      list: (organization) => Effect.sync(() => oldestFirst(of(organization)))
    })
  })
)
