import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer } from "effect"
import { AllowedTools } from "../../src/application/ports/storage/AllowedTools.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { AgentId } from "../../src/domain/agent/Agent.ts"
import { SessionId } from "../../src/domain/conversation/Session.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { account } from "./Samples.ts"

const [helper, writer] = [AgentId.make("helper"), AgentId.make("writer")]
const [morning, evening] = [SessionId.make("morning"), SessionId.make("evening")]

/** What every store of tools that persons have allowed must do. */
export const allowedToolsSuite = (name: string, store: Layer.Layer<AllowedTools | Organizations | Ledger, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("knows what was allowed at a place, and at no other one", () =>
      Effect.gen(function* () {
        const tools = yield* AllowedTools
        const [mine, foreign] = [yield* account(), yield* account()]
        const inMorning = { agent: helper, session: morning }
        const everywhere = { agent: helper, session: undefined }
        yield* tools.allow(mine, inMorning, "files--write")
        yield* tools.allow(mine, inMorning, "files--ü %_'")
        yield* tools.allow(mine, everywhere, "web--fetch")
        assert.deepStrictEqual(yield* tools.of(mine, inMorning), new Set(["files--write", "files--ü %_'"]))
        assert.deepStrictEqual(yield* tools.of(mine, everywhere), new Set(["web--fetch"]))
        for (const [workspace, place] of [
          [mine, { agent: helper, session: evening }],
          [mine, { agent: writer, session: morning }],
          [mine, { agent: writer, session: undefined }],
          [foreign, inMorning],
          [foreign, everywhere]
        ] as const) {
          assert.deepStrictEqual(yield* tools.of(workspace, place), new Set())
        }
      })
    )

    it.effect("does not mind a tool that is allowed twice, by two at once", () =>
      Effect.gen(function* () {
        const tools = yield* AllowedTools
        const mine = yield* account()
        const place = { agent: helper, session: undefined }
        const allow = tools.allow(mine, place, "web--fetch")
        yield* Effect.all([allow, allow, allow], { concurrency: "unbounded", discard: true })
        assert.deepStrictEqual(yield* tools.of(mine, place), new Set(["web--fetch"]))
        yield* tools.forgetAgent(mine, helper)
        assert.deepStrictEqual(yield* tools.of(mine, place), new Set())
      })
    )

    it.effect("forgets a session of one workspace, or an agent with its sessions, and nothing else", () =>
      Effect.gen(function* () {
        const tools = yield* AllowedTools
        const [mine, foreign] = [yield* account(), yield* account()]
        const places = [helper, writer].flatMap((agent) =>
          [morning, evening, undefined].map((session) => ({ agent, session }))
        )
        for (const workspace of [mine, foreign]) {
          for (const place of places) yield* tools.allow(workspace, place, "tool")
        }
        const left = (workspace: OrganizationId) =>
          Effect.map(
            Effect.forEach(places, (place) => Effect.map(tools.of(workspace, place), ({ size }) => size)),
            (sizes) => sizes.join("")
          )
        yield* tools.forgetSession(mine, morning)
        yield* tools.forgetSession(mine, morning)
        assert.strictEqual(yield* left(mine), "011011")
        yield* tools.forgetAgent(mine, writer)
        assert.strictEqual(yield* left(mine), "011000")
        assert.strictEqual(yield* left(foreign), "111111")
      })
    )

    it.effect("takes nothing without an organization", () =>
      Effect.gen(function* () {
        const nobody = OrganizationId.make(crypto.randomUUID())
        const allow = (yield* AllowedTools).allow(nobody, { agent: helper, session: undefined }, "tool")
        const exit = yield* Effect.exit(allow)
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      })
    )
  })
