import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer } from "effect"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { Members } from "../../src/application/ports/storage/Members.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { account, member } from "./Samples.ts"

/** What every store of members must do. */
export const membersSuite = (name: string, store: Layer.Layer<Members | Organizations | Ledger, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("lists an organization's own members, the oldest first", () =>
      Effect.gen(function* () {
        const members = yield* Members
        const [mine, foreign] = [yield* account(), yield* account()]
        const [old, young] = [
          member(mine, { role: "owner", createdAt: Date.UTC(2026, 0) }),
          member(mine, { role: "admin", createdAt: Date.UTC(2026, 1) })
        ]
        for (const each of [young, old, member(foreign)]) yield* members.insert(each)
        assert.deepStrictEqual(yield* members.list(mine), [old, young])
      })
    )

    it.effect("refuses a name that is taken in the organization, not in another", () =>
      Effect.gen(function* () {
        const members = yield* Members
        const [mine, foreign] = [yield* account(), yield* account()]
        const first = member(mine)
        yield* members.insert(first)
        yield* members.insert(member(foreign, { name: first.name }))
        const error = yield* Effect.flip(members.insert(member(mine, { name: first.name })))
        assert.deepInclude(error, { _tag: "NameTaken", kind: "member", name: first.name })
        assert.deepStrictEqual(yield* members.list(mine), [first])
      })
    )

    it.effect("takes no member without an organization", () =>
      Effect.gen(function* () {
        const nowhere = OrganizationId.make(crypto.randomUUID())
        const exit = yield* Effect.exit((yield* Members).insert(member(nowhere)))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.deepStrictEqual(yield* (yield* Members).list(nowhere), [])
      })
    )
  })
