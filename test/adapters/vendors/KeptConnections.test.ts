import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { once } from "node:events"
import { createServer, type ServerResponse } from "node:http"
import * as EgressLive from "../../../src/adapters/egress/EgressLive.ts"
import type { Upstream } from "../../../src/adapters/vendors/Driver.ts"
import { compatible } from "../../../src/adapters/vendors/drivers/Compatible.ts"
import { openAiChat } from "../../../src/adapters/vendors/protocols/OpenAiChat.ts"
import * as VendorsLive from "../../../src/adapters/vendors/VendorsLive.ts"
import { Tokenizer } from "../../../src/application/ports/runtime/Tokenizer.ts"
import { type UpstreamCall, Upstreams } from "../../../src/application/ports/vendor/Upstreams.ts"

const frame = (content: string, finish: string | null) =>
  `data: ${JSON.stringify({
    id: "c",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta: { content }, finish_reason: finish }]
  })}\n\n`

/** An upstream that counts its connections and streams two words, and then what the test says. */
const upstreamThat = (ends: (response: ServerResponse) => void) =>
  Effect.gen(function* () {
    const counted = { opened: 0, closed: 0 }
    const server = createServer((request, response) => {
      request.resume().on("end", () => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        // As real vendors do: pieces of their own, also in one packet.
        response.write(frame("Good ", null))
        response.write(frame("morning.", "stop"))
        ends(response)
      })
    })
    server.on("connection", (socket) => {
      counted.opened++
      socket.on("close", () => counted.closed++)
    })
    server.listen(0, "127.0.0.1")
    yield* Effect.promise(() => once(server, "listening"))
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      })
    )
    const address = server.address()
    const port = address !== null && typeof address === "object" ? address.port : assert.fail("no port")
    return { counted, baseUrl: `http://127.0.0.1:${port}/v1` }
  })

const vendorsTo = (baseUrl: string) => {
  const upstream: Upstream = {
    id: "fake",
    auth: "bearer",
    protocol: openAiChat,
    dialect: compatible,
    baseUrl,
    apiKey: "key"
  }
  return VendorsLive.layer([upstream], {}).pipe(
    Layer.provide(Layer.succeed(Tokenizer, { count: (text) => text.length })),
    Layer.provide(EgressLive.layer({ allowPrivate: true }))
  )
}

const call: UpstreamCall = {
  route: { method: "service", upstream: "fake", upstreamModel: "m" },
  request: { model: "m", messages: [{ role: "user", content: "Hi" }], stream: true },
  outputCap: undefined,
  outputLimit: 100
}

/** One streamed answer; only its beginning, if that is all the caller takes. */
const answer = (events: number) =>
  Effect.gen(function* () {
    const { stream } = yield* Upstreams
    const said = yield* Stream.runCollect(Stream.take(yield* stream(call), events))
    return said.map((event) => (event._tag === "Delta" ? (event.content ?? "") : "")).join("")
  }).pipe(Effect.scoped)

const all = Number.POSITIVE_INFINITY

describe("the connection of a stream", () => {
  it.live.each([
    {
      end: "in a packet of its own",
      ends: (response: ServerResponse) => {
        response.write("data: [DONE]\n\n")
        setTimeout(() => response.end(), 20)
      }
    },
    { end: "in the same packet", ends: (response: ServerResponse) => void response.end("data: [DONE]\n\n") }
  ])("serves the next one when its end comes $end", ({ ends }) =>
    Effect.gen(function* () {
      const { baseUrl, counted } = yield* upstreamThat(ends)
      const answers = Effect.gen(function* () {
        for (let n = 0; n < 5; n++) {
          assert.strictEqual(yield* answer(all), "Good morning.")
          yield* Effect.sleep("60 millis")
        }
      })
      yield* Effect.provide(answers, vendorsTo(baseUrl))
      assert.strictEqual(counted.opened, 1)
    }).pipe(Effect.scoped)
  )

  it.live("is closed when its end does not come, and nobody waits for that", () =>
    Effect.gen(function* () {
      const { baseUrl, counted } = yield* upstreamThat((response) => void response.write("data: [DONE]\n\n"))
      const answered = Effect.gen(function* () {
        const began = performance.now()
        assert.strictEqual(yield* answer(all), "Good morning.")
        assert.isBelow(performance.now() - began, 900)
        while (counted.closed === 0) yield* Effect.sleep("20 millis")
        assert.isAtLeast(performance.now() - began, 990)
      })
      yield* Effect.provide(answered, vendorsTo(baseUrl))
    }).pipe(Effect.scoped)
  )

  it.live("is closed at once when its caller leaves", () =>
    Effect.gen(function* () {
      const { baseUrl, counted } = yield* upstreamThat(() => undefined)
      const left = Effect.gen(function* () {
        assert.strictEqual(yield* answer(1), "Good ")
        const began = performance.now()
        while (counted.closed === 0) yield* Effect.sleep("5 millis")
        assert.isBelow(performance.now() - began, 500)
      })
      yield* Effect.provide(left, vendorsTo(baseUrl))
    }).pipe(Effect.scoped)
  )
})
