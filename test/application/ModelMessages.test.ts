import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import type { ModelMedia } from "../../src/application/conversation/Media.ts"
import { type HistoryMessage, ModelMessages } from "../../src/application/conversation/ModelMessages.ts"
import { Blobs } from "../../src/application/ports/storage/Blobs.ts"
import { ChatMessage } from "../../src/domain/completion/ChatMessage.ts"
import type { ContentPart } from "../../src/domain/conversation/Message.ts"
import { account } from "../conformance/Samples.ts"

const Live = ModelMessages.layer.pipe(Layer.provideMerge(InMemoryLive.layer))

const everything: ModelMedia = { takes: new Set(["image", "file", "audio"]), allowedMediaTypes: undefined }
const nothing: ModelMedia = { takes: new Set(), allowedMediaTypes: undefined }

let ids = 0
const said = (
  role: HistoryMessage["role"],
  content: HistoryMessage["content"],
  more: Partial<HistoryMessage> = {}
) => ({
  id: `m${++ids}`,
  role,
  content,
  ...more
})

const call = (id: string, args = "{}") => ({ id, name: "files--read", arguments: args })

const result = (toolCallId: string, content: HistoryMessage["content"]) =>
  said("tool", content, { toolCallId, name: "files--read" })

const isMessages = Schema.is(Schema.Array(ChatMessage))

/** What a model is given of a history, which has to be what the gateway takes. */
const given = Effect.fnUntraced(function* (history: ReadonlyArray<HistoryMessage>, model = everything) {
  const workspace = yield* account()
  const messages = yield* (yield* ModelMessages).of(workspace, history, model)
  assert.isTrue(isMessages(messages))
  return messages
})

const missing = "No result of this call was recorded: the tool may have run or not."

describe("a history, as a model is given it", () => {
  it.effect("has what was said, and each call with its result right behind it", () =>
    Effect.gen(function* () {
      const messages = yield* given([
        said("user", "Read both."),
        said("assistant", "I will.", { toolCalls: [call("1", '{"path":"a"}'), call("2")], reasoning: "thinking" }),
        result("2", "two"),
        result("1", "one"),
        said("assistant", "Done.", {
          tokenUsage: { inputTokens: 1, outputTokens: 1, reasoningTokens: 0, totalTokens: 2 }
        }),
        said("user", [
          { type: "text", text: "Thank" },
          { type: "text", text: "you" }
        ]),
        said("system", "Summary of before.")
      ])
      const called = (id: string, args: string) => ({
        id,
        type: "function",
        function: { name: "files--read", arguments: args }
      })
      assert.deepStrictEqual<unknown>(messages, [
        { role: "user", content: "Read both." },
        { role: "assistant", content: "I will.", tool_calls: [called("1", '{"path":"a"}'), called("2", "{}")] },
        { role: "tool", tool_call_id: "1", name: "files--read", content: "one" },
        { role: "tool", tool_call_id: "2", name: "files--read", content: "two" },
        { role: "assistant", content: "Done." },
        { role: "user", content: "Thank\nyou" },
        { role: "system", content: "Summary of before." }
      ])
    }).pipe(Effect.provide(Live))
  )

  it.effect("has one result of each call, whatever is missing, comes twice, or belongs to none", () =>
    Effect.gen(function* () {
      const messages = yield* given([
        result("0", "of a call that was cut off"),
        said("user", "Go."),
        said("assistant", null, { toolCalls: [call("1"), call("2")] }),
        result("1", "first"),
        result("1", "second"),
        result("3", "of nobody"),
        said("user", "And?"),
        said("assistant", "", { toolCalls: [call("1")] }),
        said("assistant", ""),
        result("1", "too late"),
        said("assistant", null)
      ])
      assert.deepStrictEqual(
        messages.map((message) => [message.role, message.content]),
        [
          ["user", "Go."],
          ["assistant", null],
          ["tool", "first"],
          ["tool", missing],
          ["assistant", "[The turn ended here without an answer.]"],
          ["user", "And?"],
          ["assistant", null],
          ["tool", missing]
        ]
      )
    }).pipe(Effect.provide(Live))
  )

  it.effect("has an answer between a result and the user's next word, also of a turn that was broken off", () =>
    Effect.gen(function* () {
      const unanswered = [
        said("user", "Go."),
        said("assistant", "Well.", { toolCalls: [call("1")] }),
        result("1", "one")
      ]
      const roles = (messages: ReadonlyArray<ChatMessage>) => messages.map(({ role }) => role)
      const running = ["user", "assistant", "tool"]
      assert.deepStrictEqual(roles(yield* given(unanswered)), running)
      assert.deepStrictEqual(roles(yield* given([...unanswered, said("assistant", ""), said("user", "And?")])), [
        ...running,
        "assistant",
        "user"
      ])
      assert.deepStrictEqual(roles(yield* given([...unanswered, said("assistant", "Done."), said("user", "And?")])), [
        ...running,
        "assistant",
        "user"
      ])
    }).pipe(Effect.provide(Live))
  )

  it.effect("has no text without a word in it, which some vendors refuse", () =>
    Effect.gen(function* () {
      const image: ContentPart = { type: "image", image: "blob:gone", mimeType: "image/png" }
      const messages = yield* given([
        said("user", [{ type: "text", text: " \n" }, image]),
        said("assistant", "\n\n", { toolCalls: [call("1")] }),
        result("1", "one"),
        said("assistant", " \n")
      ])
      assert.deepStrictEqual(
        messages.map(({ content }) => (Array.isArray(content) ? content.length : content)),
        [1, null, "one"]
      )
    }).pipe(Effect.provide(Live))
  )

  it.effect("has arguments that every vendor can read", () =>
    Effect.gen(function* () {
      const [message] = yield* given([
        said("assistant", null, {
          toolCalls: [call("1", ""), call("2", '{"a":'), call("3", "[1]"), call("4", '{"a":1}')]
        })
      ])
      assert.deepStrictEqual(
        message?.role === "assistant" && message.tool_calls?.map(({ function: { arguments: args } }) => args),
        ["{}", JSON.stringify({ invalid: '{"a":' }), JSON.stringify({ invalid: "[1]" }), '{"a":1}']
      )
    }).pipe(Effect.provide(Live))
  )

  it.effect("has attachments with their bytes, of users and of tools", () =>
    Effect.gen(function* () {
      const blobs = yield* Blobs
      const workspace = yield* account()
      const put = (text: string, mimeType: string) =>
        Effect.map(blobs.put(workspace, "o", { bytes: Buffer.from(text), mimeType }), ({ id }) => `blob:${id}`)
      const image = yield* put("image", "image/png")
      const pdf = yield* put("pdf", "application/pdf")
      const sound = yield* put("sound", "audio/mp3")
      const history = [
        said("user", [
          { type: "text", text: "Look" },
          { type: "image", image, mimeType: "image/png" },
          { type: "file", data: pdf, mimeType: "application/pdf", filename: "a.pdf" },
          { type: "file", data: sound, mimeType: "audio/mp3" }
        ]),
        said("assistant", null, { toolCalls: [call("1")] }),
        result("1", [
          { type: "text", text: "read" },
          { type: "image", image, mimeType: "image/png" },
          { type: "file", data: pdf, mimeType: "application/pdf" }
        ])
      ]
      const base64 = (text: string) => Buffer.from(text).toString("base64")
      const messages = yield* (yield* ModelMessages).of(workspace, history, everything)
      assert.isTrue(isMessages(messages))
      assert.deepStrictEqual<unknown>(messages[0]?.content, [
        { type: "text", text: "Look" },
        { type: "image_url", image_url: { url: `data:image/png;base64,${base64("image")}` } },
        { type: "file", file: { file_data: `data:application/pdf;base64,${base64("pdf")}`, filename: "a.pdf" } },
        { type: "input_audio", input_audio: { data: base64("sound"), format: "mp3" } }
      ])
      assert.deepStrictEqual<unknown>(messages[2]?.content, [
        { type: "text", text: "read" },
        { type: "image", image: base64("image"), mimeType: "image/png" },
        { type: "file", data: base64("pdf"), mimeType: "application/pdf" }
      ])
      const told = (name: string, type: string) => ({
        type: "text",
        text: `[${name} (${type}) was attached here; this model cannot be shown it.]`
      })
      const blind = yield* (yield* ModelMessages).of(workspace, history, nothing)
      assert.deepStrictEqual<unknown>(blind[0]?.content, [
        { type: "text", text: "Look" },
        told("image", "image/png"),
        told("a.pdf", "application/pdf"),
        told("attachment.mp3", "audio/mp3")
      ])
      yield* blobs.release(workspace, "o")
      const gone = yield* (yield* ModelMessages).of(workspace, history, everything)
      assert.include(JSON.stringify(gone[0]), "a.pdf (application/pdf) was attached here; it is not kept any more.")
    }).pipe(Effect.provide(Live))
  )

  it.effect("has the newest attachments that fit into a request, and each of them as often as it stands there", () =>
    Effect.gen(function* () {
      const blobs = yield* Blobs
      const workspace = yield* account()
      const put = (letter: string, size: number) =>
        Effect.map(
          blobs.put(workspace, "o", { bytes: Buffer.alloc(size, letter), mimeType: "image/png" }),
          ({ id }) => `blob:${id}`
        )
      const old = yield* put("a", 9 * 1024 * 1024)
      const large = yield* put("b", 15 * 1024 * 1024)
      const small = yield* put("c", 1024)
      const history = [small, old, large, small].map((image) =>
        said("user", [{ type: "image", image, mimeType: "image/png" }])
      )
      const messages = yield* (yield* ModelMessages).of(workspace, history, everything)
      const sizes = messages.map((message) => JSON.stringify(message).length)
      assert.isAbove(sizes[0] ?? 0, 1_300)
      assert.include(JSON.stringify(messages[1]), "there was no room for it")
      assert.isAbove(sizes[2] ?? 0, 20_000_000)
      assert.strictEqual(sizes[3], sizes[0])
      assert.isBelow(
        sizes.reduce((sum, size) => sum + size),
        32_000_000
      )
    }).pipe(Effect.provide(Live))
  )
})
