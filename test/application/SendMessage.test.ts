import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as IdsLive from "../../src/adapters/crypto/IdsLive.ts"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import { Attachments } from "../../src/application/conversation/Attachments.ts"
import { CallModel } from "../../src/application/conversation/CallModel.ts"
import { SendMessage } from "../../src/application/conversation/SendMessage.ts"
import { SessionsOfWorkspace } from "../../src/application/conversation/SessionsOfWorkspace.ts"
import type { UserMessage } from "../../src/application/conversation/UserMessage.ts"
import { EffectiveLlm } from "../../src/application/llm/EffectiveLlm.ts"
import { TurnRunner } from "../../src/application/ports/runtime/TurnRunner.ts"
import { Sessions } from "../../src/application/ports/storage/Sessions.ts"
import { longestText } from "../../src/domain/conversation/Message.ts"
import type { TurnRef } from "../../src/domain/conversation/Turn.ts"
import { sessionId } from "../conformance/Conversation.ts"
import { account } from "../conformance/Samples.ts"

const started: Array<TurnRef> = []

const Live = SendMessage.layer.pipe(
  Layer.provide(
    Layer.mergeAll(
      Layer.mock(TurnRunner, { start: (turn) => Effect.sync(() => void started.push(turn)) }),
      Layer.mock(RunningAgents, {}),
      Layer.mock(EffectiveLlm, {}),
      Layer.mock(CallModel, {}),
      Layer.mock(Attachments, { store: () => Effect.succeed([]) }),
      Layer.unwrap(
        Effect.map(Sessions, ({ open }) =>
          Layer.mock(SessionsOfWorkspace, { open: (workspace, id = sessionId()) => open(workspace, id) })
        )
      ),
      IdsLive.layer
    )
  ),
  Layer.provideMerge(InMemoryLive.layer)
)

layer(Live)("SendMessage", (it) => {
  const message = (content: string): UserMessage => ({ session: sessionId(), content, stream: true, caller: null })

  it.effect("starts the first turn of a session; the next ones wait for it", () =>
    Effect.gen(function* () {
      const workspace = yield* account()
      const { send } = yield* SendMessage
      const first = message("Hi")
      const { position, turn } = yield* send(workspace, first)
      assert.strictEqual(position, 0)
      assert.deepStrictEqual(started.splice(0), [turn])
      assert.strictEqual((yield* send(workspace, first)).position, 1)
      assert.deepStrictEqual(started, [])
    })
  )

  it.effect("takes the longest text, and refuses a longer one and an empty one: nothing is stored", () =>
    Effect.gen(function* () {
      const workspace = yield* account()
      const { send } = yield* SendMessage
      const sessions = yield* Sessions
      for (const [content, expected] of [
        ["x".repeat(longestText + 1), /at most 1000000 characters/u],
        [" \n", /`message` is empty/u]
      ] as const) {
        const refused = message(content)
        const { _tag, message: said } = yield* Effect.flip(send(workspace, refused))
        assert.strictEqual(_tag, "MessageRefused")
        assert.match(said, expected)
        assert.deepStrictEqual(yield* sessions.list(workspace), [])
      }
      assert.deepStrictEqual(started.splice(0), [])
      yield* send(workspace, message("x".repeat(longestText)))
      assert.strictEqual(started.splice(0).length, 1)
    })
  )
})
