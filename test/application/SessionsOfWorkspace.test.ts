import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Option, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as IdsLive from "../../src/adapters/crypto/IdsLive.ts"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { CurrentAgent, NoCurrentAgent } from "../../src/application/agent/CurrentAgent.ts"
import { Environment } from "../../src/application/agent/Environment.ts"
import { blobOwner, SessionsOfWorkspace } from "../../src/application/conversation/SessionsOfWorkspace.ts"
import { AgentYaml } from "../../src/application/ports/files/AgentYaml.ts"
import { TurnRunner } from "../../src/application/ports/runtime/TurnRunner.ts"
import { AllowedTools } from "../../src/application/ports/storage/AllowedTools.ts"
import { Blobs } from "../../src/application/ports/storage/Blobs.ts"
import { SessionLlms } from "../../src/application/ports/storage/SessionLlms.ts"
import { Sessions } from "../../src/application/ports/storage/Sessions.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import { AgentId } from "../../src/domain/agent/Agent.ts"
import { AgentDocument } from "../../src/domain/agent/AgentConfig.ts"
import { effectiveConfig } from "../../src/domain/agent/EffectiveConfig.ts"
import { SessionNotFound } from "../../src/domain/conversation/SessionErrors.ts"
import type { TurnRef } from "../../src/domain/conversation/Turn.ts"
import { exchanged, sessionId, submission, turnIn } from "../conformance/Conversation.ts"
import { account } from "../conformance/Samples.ts"
import { fileOf } from "./AgentFiles.ts"

const unused = () => Effect.die(new Error("no test needs it"))

const Document = Schema.fromJsonString(AgentDocument)

/** The agent of every workspace; undefined: there is none. */
let agent: object | undefined
const woken: Array<TurnRef> = []

const Fakes = Layer.mergeAll(
  Layer.succeed(TurnRunner, {
    start: unused,
    wake: (turn) => Effect.sync(() => void woken.push(turn))
  }),
  Layer.succeed(CurrentAgent, {
    registry: unused,
    file: () =>
      Effect.suspend(() => (agent === undefined ? Effect.fail(new NoCurrentAgent()) : Effect.succeed(fileOf(agent)))),
    replace: unused
  }),
  Layer.succeed(Environment, { variables: () => Effect.succeed(new Map()), set: unused }),
  Layer.succeed(AgentYaml, {
    read: (text) => {
      const document = Schema.decodeUnknownOption(Document)(text)
      return {
        errors: [],
        warnings: [],
        valid: Option.isNone(document)
          ? undefined
          : { document: document.value, config: effectiveConfig(document.value) }
      }
    },
    edit: (text) => text,
    write: String,
    parse: () => undefined
  })
)

const Live = SessionsOfWorkspace.layer.pipe(
  Layer.provideMerge(InMemoryLive.layer),
  Layer.provide(Fakes),
  Layer.provide(IdsLive.layer),
  Layer.provideMerge(TestClock.layer())
)

const llm = { provider: "service", model: "echo", router: "in-built" as const }

layer(Live, { excludeTestServices: true })("The sessions of a workspace", (it) => {
  const isNotFound = <A>(exit: Exit.Exit<A, unknown>) =>
    Exit.isFailure(exit) && Option.exists(Cause.findErrorOption(exit.cause), Schema.is(SessionNotFound))

  it.effect("are as many as the agent's configuration lets be active", () =>
    Effect.gen(function* () {
      const sessions = yield* SessionsOfWorkspace
      const workspace = yield* account()
      agent = { systemPrompt: "x", llm, sessions: { maxSessions: 2, sessionTTL: 60_000 } }
      const { session } = yield* sessions.open(workspace, undefined)
      yield* sessions.open(workspace, sessionId())
      const refused = yield* Effect.flip(sessions.open(workspace, sessionId()))
      assert.deepStrictEqual([refused.most, refused.millis], [2, 60_000])
      assert.include(refused.message, "at most 2 sessions")
      assert.deepStrictEqual(yield* sessions.open(workspace, session.id), { session, isNew: false })
      yield* TestClock.adjust("2 minutes")
      assert.isTrue((yield* sessions.open(workspace, undefined)).isNew)
      assert.strictEqual((yield* sessions.list(workspace)).length, 3)
    })
  )

  it.effect("are a hundred in an hour when there is no agent, or its configuration is wrong", () =>
    Effect.gen(function* () {
      const sessions = yield* SessionsOfWorkspace
      for (const configured of [undefined, { llm: "wrong" }]) {
        agent = configured
        const workspace = yield* account()
        for (let count = 0; count < 100; count++) yield* sessions.open(workspace, undefined)
        const refused = yield* Effect.flip(sessions.open(workspace, undefined))
        assert.deepStrictEqual([refused.most, refused.millis], [100, 3_600_000])
      }
    })
  )

  it.effect("tell what runs that its session was reset, removed or cancelled", () =>
    Effect.gen(function* () {
      const sessions = yield* SessionsOfWorkspace
      const journal = yield* TurnJournal
      const workspace = yield* account()
      for (const end of [sessions.reset, sessions.remove, sessions.cancel] as const) {
        const running = turnIn(workspace, sessionId())
        yield* journal.submit(running, submission("one"))
        yield* journal.submit(turnIn(workspace, running.session), submission("two"))
        woken.length = 0
        yield* end(workspace, running.session)
        assert.deepStrictEqual(woken, [running])
      }
    })
  )

  it.effect("say whether there was something to cancel", () =>
    Effect.gen(function* () {
      const sessions = yield* SessionsOfWorkspace
      const workspace = yield* account()
      const turn = yield* exchanged(workspace, sessionId(), "Hello", "Hi")
      woken.length = 0
      assert.isFalse(yield* sessions.cancel(workspace, turn.session))
      assert.deepStrictEqual(woken, [])
      assert.isTrue(isNotFound(yield* Effect.exit(sessions.cancel(workspace, "nobody"))))
    })
  )

  it.effect("let go of their blobs and of their choice of a model", () =>
    Effect.gen(function* () {
      const sessions = yield* SessionsOfWorkspace
      const blobs = yield* Blobs
      const llms = yield* SessionLlms
      const workspace = yield* account()
      const id = sessionId()
      const put = blobs.put(workspace, blobOwner(id), { bytes: new Uint8Array([1]), mimeType: "image/png" })
      const isChosen = Effect.map(llms.find(workspace, id), Option.isSome)
      yield* (yield* Sessions).open(workspace, id)
      yield* llms.put(workspace, id, {
        provider: "openai",
        model: "gpt",
        router: "in-built",
        baseURL: null,
        maxInputTokens: null,
        keyVariable: null
      })
      yield* put
      yield* sessions.reset(workspace, id)
      assert.deepStrictEqual(yield* blobs.list(workspace), [])
      assert.isTrue(yield* isChosen)
      yield* put
      const allowed = yield* AllowedTools
      const place = { agent: AgentId.make("helper"), session: id }
      yield* allowed.allow(workspace, place, "files--write")
      yield* sessions.remove(workspace, id)
      assert.deepStrictEqual(yield* blobs.list(workspace), [])
      assert.isFalse(yield* isChosen)
      assert.deepStrictEqual(yield* allowed.of(workspace, place), new Set())
      // Whoever removed it before may have died before its blobs were let go.
      yield* put
      assert.isTrue(isNotFound(yield* Effect.exit(sessions.remove(workspace, id))))
      assert.deepStrictEqual(yield* blobs.list(workspace), [])
      yield* sessions.reset(workspace, id)
    })
  )

  it.effect("are not found by what cannot be an id", () =>
    Effect.gen(function* () {
      const sessions = yield* SessionsOfWorkspace
      const workspace = yield* account()
      for (const id of ["", "two words", "ä", "a".repeat(129), "\0", "nobody"]) {
        for (const asked of [
          sessions.find(workspace, id),
          sessions.history(workspace, id),
          sessions.rename(workspace, id, "title"),
          sessions.remove(workspace, id),
          sessions.load(workspace, id),
          sessions.cancel(workspace, id)
        ]) {
          assert.isTrue(isNotFound(yield* Effect.exit<unknown, unknown, never>(asked)), id)
        }
      }
    })
  )
})
