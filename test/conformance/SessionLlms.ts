import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer, Option } from "effect"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { SessionLlms } from "../../src/application/ports/storage/SessionLlms.ts"
import { SessionId } from "../../src/domain/conversation/Session.ts"
import type { LlmOverride } from "../../src/domain/llm/Llm.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { account } from "./Samples.ts"

const session = SessionId.make("morning")

const full: LlmOverride = {
  provider: "openai-compatible",
  model: "llama, the large one",
  router: "external-sdk",
  baseURL: "https://models.example.com/v1",
  maxInputTokens: 8_000_000_000,
  keyVariable: "OPENAI_COMPATIBLE_API_KEY"
}

const bare: LlmOverride = {
  provider: "service",
  model: "echo",
  router: "in-built",
  baseURL: null,
  maxInputTokens: null,
  keyVariable: null
}

/** What every store of sessions' own choices of a model must do. */
export const sessionLlmsSuite = (name: string, store: Layer.Layer<SessionLlms | Organizations | Ledger, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("finds a session's choice as it was put, of one workspace and session", () =>
      Effect.gen(function* () {
        const llms = yield* SessionLlms
        const [mine, foreign] = [yield* account(), yield* account()]
        yield* llms.put(mine, session, full)
        yield* llms.put(mine, SessionId.make("evening"), bare)
        assert.deepStrictEqual(yield* llms.find(mine, session), Option.some(full))
        assert.deepStrictEqual(yield* llms.find(mine, SessionId.make("evening")), Option.some(bare))
        assert.deepStrictEqual(yield* llms.find(foreign, session), Option.none())
      })
    )

    it.effect("has one choice of a session: the last one put", () =>
      Effect.gen(function* () {
        const llms = yield* SessionLlms
        const mine = yield* account()
        for (const each of [full, bare]) yield* llms.put(mine, session, each)
        assert.deepStrictEqual(yield* llms.find(mine, session), Option.some(bare))
      })
    )

    it.effect("removes a choice of one workspace and session, and does not mind when there is none", () =>
      Effect.gen(function* () {
        const llms = yield* SessionLlms
        const [mine, foreign] = [yield* account(), yield* account()]
        for (const each of [mine, foreign]) yield* llms.put(each, session, full)
        yield* llms.put(mine, SessionId.make("evening"), bare)
        yield* llms.remove(mine, session)
        yield* llms.remove(mine, session)
        assert.deepStrictEqual(yield* llms.find(mine, session), Option.none())
        assert.deepStrictEqual(yield* llms.find(mine, SessionId.make("evening")), Option.some(bare))
        assert.deepStrictEqual(yield* llms.find(foreign, session), Option.some(full))
      })
    )

    it.effect("takes no choice without an organization", () =>
      Effect.gen(function* () {
        const put = (yield* SessionLlms).put(OrganizationId.make(crypto.randomUUID()), session, full)
        const exit = yield* Effect.exit(put)
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      })
    )
  })
