import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Fiber, Option, Result, Scope, Stream } from "effect"
import { afterEach } from "vitest"
import { CallModel, type ModelCall, ModelFailed } from "../../src/application/conversation/CallModel.ts"
import type { ChatMessage } from "../../src/domain/completion/ChatMessage.ts"
import type { CompletionEvent } from "../../src/domain/completion/CompletionEvent.ts"
import { Folded } from "../../src/domain/completion/Folded.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { llm } from "../domain/llm/Samples.ts"
import { callModel, counted, fakeVendor, type FakeVendor, ways } from "../fixtures/AgentVendors.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { fakeOpenAi, type FakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { plain } from "../fixtures/openai/Reply.ts"

const question: ChatMessage = { role: "user", content: "What is the weather in Oslo and in Rome?" }

const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
  }
} as const

/** A white pixel. */
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
const wav = Buffer.from("RIFF....WAVEfmt ").toString("base64")
const pdf = Buffer.from("%PDF-1.4\n%%EOF\n").toString("base64")

describe.each(ways)("the models of agents: $vendor by the router $router", (way) => {
  const { router, vendor: name } = way
  const takesAudio = name === "openai-compatible"

  const callTo = (
    { llm: configured }: FakeVendor,
    messages: ReadonlyArray<ChatMessage>,
    more: Partial<ModelCall["request"]> = {},
    settings: Partial<ModelCall["llm"]> = {}
  ): ModelCall => ({
    workspace: OrganizationId.make("organization"),
    llm: llm({ ...configured, router, ...settings }),
    caller: null,
    requestId: "request",
    request: { messages, ...more }
  })

  const withVendor = <E>(use: (vendor: FakeVendor) => Effect.Effect<void, E, CallModel | Scope.Scope>) =>
    Effect.gen(function* () {
      const vendor = yield* fakeVendor(way)
      yield* Effect.provide(use(vendor), callModel(vendor.address))
    })

  const stream = (call: ModelCall) => Effect.flatMap(CallModel, (model) => model.stream(call))

  /** What came of a call: the events, and how it failed. */
  const outcome = (call: ModelCall) =>
    Effect.gen(function* () {
      const folded = new Folded()
      const events: Array<CompletionEvent> = []
      const ended = yield* Effect.flatMap(stream(call), (answer) =>
        Stream.runForEach(answer, (event) =>
          Effect.sync(() => {
            folded.add(event)
            events.push(event)
          })
        )
      ).pipe(Effect.scoped, Effect.result)
      const { choices, usage } = folded.completion
      return { failure: Result.isFailure(ended) ? ended.failure : undefined, choice: choices[0], usage, events }
    })

  it.live("gives a text as it comes, and counts it", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        vendor.says([{ text: "It rains in Oslo." }])
        const { choice, events, failure, usage } = yield* outcome(callTo(vendor, [question]))
        assert.isUndefined(failure)
        assert.strictEqual(choice?.content, "It rains in Oslo.")
        assert.strictEqual(choice?.finishReason, "stop")
        assert.deepStrictEqual(usage, counted)
        assert.isAtLeast(events.filter((event) => event._tag === "Delta" && (event.content ?? "") !== "").length, 4)
        assert.strictEqual(vendor.log.length, 1)
      })
    )
  )

  it.live("says what the agent is configured with: model, limit, temperature", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        vendor.says([{ text: "Yes." }])
        const settings = { maxOutputTokens: 77, temperature: 0.5 }
        const { failure } = yield* outcome(callTo(vendor, [question], {}, settings))
        assert.isUndefined(failure)
        const sent = vendor.requests[0]?.text ?? ""
        assert.include(sent, `"model":"${vendor.llm.model}"`)
        assert.match(sent, /"(?:max_tokens|max_completion_tokens|max_output_tokens)":77/)
        assert.include(sent, '"temperature":0.5')
      })
    )
  )

  it.live.skipIf(name === "openai")("gives reasoning apart from the text", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        vendor.says([{ thought: "Oslo is wet in autumn." }, { text: "It rains." }])
        const { choice, usage } = yield* outcome(callTo(vendor, [question]))
        assert.strictEqual(choice?.reasoning, "Oslo is wet in autumn.")
        assert.strictEqual(choice?.content, "It rains.")
        assert.deepStrictEqual(usage, counted)
      })
    )
  )

  it.live("calls tools in parallel, and goes on with their results as the vendor wants it", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        vendor.says([
          { thought: "Two cities, two calls." },
          { text: "Let me look." },
          { call: "weather", id: "call_1", arguments: { city: "Oslo" } },
          { call: "weather", id: "call_2", arguments: { city: "Rome" } }
        ])
        const first = yield* outcome(callTo(vendor, [question], { tools: [weather] }))
        assert.isUndefined(first.failure)
        assert.strictEqual(first.choice?.finishReason, "tool_calls")
        const calls = first.choice?.toolCalls ?? []
        assert.deepStrictEqual(
          calls.map(({ function: called }) => [called.name, JSON.parse(called.arguments)]),
          [
            ["weather", { city: "Oslo" }],
            ["weather", { city: "Rome" }]
          ]
        )

        vendor.says([{ text: "Rain in Oslo, sun in Rome." }])
        const second = yield* outcome(
          callTo(
            vendor,
            [
              question,
              { role: "assistant", content: first.choice?.content ?? null, tool_calls: calls },
              ...calls.map(({ id }, index): ChatMessage => ({
                role: "tool",
                tool_call_id: id,
                name: "weather",
                content: index === 0 ? "rain" : "sun"
              }))
            ],
            { tools: [weather] }
          )
        )
        assert.isUndefined(second.failure)
        assert.strictEqual(second.choice?.content, "Rain in Oslo, sun in Rome.")
        const sent = vendor.requests[1]?.text ?? ""
        for (const part of ["call_1", "call_2", "rain", "sun"]) assert.include(sent, part)
        // What travelled in the ids for the vendor is no part of them there.
        assert.notInclude(sent, "~r1~")
        if (name === "anthropic") assert.include(sent, '"signature":')
      })
    )
  )

  it.live("shows images, files, and audio to models that hear", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        vendor.says([{ text: "A white pixel." }])
        const { failure } = yield* outcome(
          callTo(vendor, [
            {
              role: "user",
              content: [
                { type: "text", text: "What is this?" },
                { type: "image_url", image_url: { url: `data:image/png;base64,${png}` } },
                { type: "file", file: { file_data: `data:application/pdf;base64,${pdf}`, filename: "a.pdf" } },
                ...(takesAudio ? [{ type: "input_audio", input_audio: { data: wav, format: "wav" } } as const] : [])
              ]
            }
          ])
        )
        assert.isUndefined(failure)
        assert.include(vendor.requests[0]?.text, png)
        assert.include(vendor.requests[0]?.text, pdf)
        assert.strictEqual(vendor.requests[0]?.text.includes(wav), takesAudio)
      })
    )
  )

  it.live("tries again what failed before the first byte, at most twice", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        vendor.answers(Errors.serverError, Errors.overloaded)
        vendor.says([{ text: "At last." }])
        const { choice } = yield* outcome(callTo(vendor, [question]))
        assert.strictEqual(choice?.content, "At last.")
        vendor.answers(Errors.serverError, Errors.serverError, Errors.serverError)
        vendor.says([{ text: "Too late." }])
        const { events, failure } = yield* outcome(callTo(vendor, [question]))
        assert.deepStrictEqual([failure?.code, failure?.recoverable], ["upstream_error", true])
        assert.lengthOf(events, 0)
        assert.deepStrictEqual(
          vendor.log.map(({ status }) => status),
          [500, 503, 200, 500, 500, 500]
        )
      })
    )
  )

  it.live("says what to do about a refusal, without the vendor's secrets", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        const failure = Effect.fnUntraced(function* (settings: Partial<ModelCall["llm"]> = {}) {
          const { failure } = yield* outcome(callTo(vendor, [question], {}, settings))
          return [failure?.code, failure?.recoverable, failure?.message] as const
        })
        const wrong = yield* failure({ apiKey: "sk-wrong-0123456789" })
        assert.deepStrictEqual(wrong.slice(0, 2), ["upstream_error", false])
        assert.match(wrong[2] ?? "", /refuses the key.*_API_KEY/)
        assert.notInclude(wrong[2], "sk-wrong")

        vendor.answers(Errors.rateLimited("0"), Errors.rateLimited("0"), Errors.rateLimited("0"))
        assert.deepStrictEqual((yield* failure()).slice(0, 2), ["rate_limited", true])

        vendor.answers(Errors.error(400, { message: `The key ${vendor.llm.apiKey} asks for too much.` }))
        const refused = yield* failure()
        assert.deepStrictEqual(refused.slice(0, 2), ["invalid_request", false])
        assert.include(refused[2], "The key [redacted] asks for too much.")

        vendor.answers(Errors.unknownModel("x"))
        assert.deepStrictEqual((yield* failure()).slice(0, 2), ["upstream_error", false])
      })
    )
  )

  it.live.each([
    { how: "breaks", fault: Faults.resetAfter(5) },
    { how: "is cut", fault: Faults.cutAfter(5) },
    { how: "ends without its end", fault: Faults.truncateAfter(5) },
    { how: "says what cannot be read", fault: Faults.insertAt(5, "data: {\n\n") },
    { how: "has a line without an end", fault: Faults.endlessLineAfter(5) }
  ])("fails once when the answer $how: what came before it stays", ({ fault }) =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        vendor.says([{ text: "One two three four five six seven eight." }], fault)
        const { choice, failure } = yield* outcome(callTo(vendor, [question]))
        assert.instanceOf(failure, ModelFailed)
        assert.deepStrictEqual([failure?.code, failure?.recoverable], ["upstream_error", true])
        assert.match(choice?.content ?? "", /^One/)
        assert.strictEqual(vendor.log.length, 1)
      })
    )
  )

  it.live.each([
    { silence: "before its answer", after: 0, reason: "timeout" },
    { silence: "within its answer", after: 5, reason: "stalled" }
  ])("waits for a vendor that is silent $silence no longer than it may take", ({ after, reason }) =>
    Effect.gen(function* () {
      const vendor = yield* fakeVendor(way)
      const deadlines = { firstByte: Duration.millis(400), idle: Duration.millis(400) }
      vendor.says([{ text: "One two three four five six." }], Faults.hangAfter(after))
      const { failure } = yield* Effect.provide(
        outcome(callTo(vendor, [question])),
        callModel(vendor.address, { deadlines })
      )
      assert.deepStrictEqual([failure?.code, failure?.recoverable], ["upstream_error", true])
      assert.include(failure?.message, reason)
      const ended = yield* Effect.promise(async () => vendor.requests[0]?.ended)
      assert.strictEqual(ended?.by, "client")
      assert.lengthOf(vendor.requests, 1)
    })
  )

  it.live("gives a long answer whole to one who reads slowly", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        const long = "0123456789 ".repeat(10_000)
        vendor.says([{ text: long }], Faults.atOnce)
        const folded = new Folded()
        let read = 0
        yield* Effect.scoped(
          Effect.flatMap(stream(callTo(vendor, [question])), (answer) =>
            Stream.runForEachArray(answer, (events) => {
              for (const event of events) folded.add(event)
              // Long enough for all that the vendor may send ahead.
              return read++ === 0 ? Effect.sleep("200 millis") : Effect.void
            })
          )
        )
        assert.strictEqual(folded.completion.choices[0]?.content, long)
      })
    )
  )

  it.live("follows no redirect: it would take the key along", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        const other = yield* fakeVendor(way)
        vendor.answers(plain(307, "", { location: `${other.llm.baseURL ?? other.address}/moved` }))
        const { failure } = yield* outcome(callTo(vendor, [question]))
        assert.deepStrictEqual([failure?.code, failure?.recoverable], ["upstream_error", false])
        assert.lengthOf(other.log, 0)
        assert.lengthOf(other.requests, 0)
      })
    )
  )

  it.live("closes the connection as soon as nobody listens", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        vendor.says([{ text: "One two three four five six." }], Faults.hangAfter(6))
        const scope = yield* Scope.make()
        const began = yield* Deferred.make<void>()
        const listening = yield* stream(callTo(vendor, [question])).pipe(
          Scope.provide(scope),
          Effect.flatMap(Stream.runForEach(() => Deferred.succeed(began, undefined))),
          Effect.forkChild
        )
        yield* Deferred.await(began)
        const left = Date.now()
        yield* Fiber.interrupt(listening)
        yield* Scope.close(scope, Exit.void)
        const ended = yield* Effect.promise(async () => vendor.requests[0]?.ended)
        assert.strictEqual(ended?.by, "client")
        assert.isBelow((ended?.at ?? Number.POSITIVE_INFINITY) - left, 1_000)
      })
    )
  )

  it.live("closes it as well while the vendor still thinks", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        vendor.says([{ text: "Never." }], Faults.hangAfter(0))
        const asking = yield* Effect.forkChild(outcome(callTo(vendor, [question])))
        while (vendor.requests.length === 0) yield* Effect.sleep("5 millis")
        yield* Fiber.interrupt(asking)
        const ended = yield* Effect.promise(async () => vendor.requests[0]?.ended)
        assert.strictEqual(ended?.by, "client")
      })
    )
  )

  it.live.skipIf(takesAudio)("sends nothing that the model cannot take", () =>
    withVendor((vendor) =>
      Effect.gen(function* () {
        const audio: ChatMessage = {
          role: "user",
          content: [{ type: "input_audio", input_audio: { data: png, format: "mp3" } }]
        }
        const { failure } = yield* outcome(callTo(vendor, [audio]))
        assert.deepStrictEqual([failure?.code, failure?.recoverable], ["unsupported_input", false])
        assert.include(failure?.message, "takes no audio")
        assert.lengthOf(vendor.log, 0)
      })
    )
  )
})

describe.each(["in-built", "external-sdk"] as const)("addresses and keys of agents by the router %s", (router) => {
  const variables = ["OPENAI_API_KEY", "OPENAI_COMPATIBLE_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"]
  const before = variables.map((name) => [name, process.env[name]] as const)
  afterEach(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  })

  const failureOf = (settings: Partial<ModelCall["llm"]>, allowPrivate = true) =>
    Effect.gen(function* () {
      const model = yield* CallModel
      return yield* model
        .stream({
          workspace: OrganizationId.make("organization"),
          llm: llm({ router, ...settings }),
          caller: null,
          requestId: "request",
          request: { messages: [question] }
        })
        .pipe(Effect.flatMap(Stream.runDrain), Effect.scoped, Effect.flip)
    }).pipe(Effect.provide(callModel("http://127.0.0.1:9", { allowPrivate })))

  it.live("never uses the operator's keys or addresses", () =>
    Effect.gen(function* () {
      const fake = yield* fakeOpenAi({ strict: false })
      for (const name of variables) process.env[name] = name.endsWith("URL") ? fake.baseUrl : fake.apiKey
      const none = yield* failureOf({ provider: "openai", model: "gpt-4o", apiKey: "" })
      assert.strictEqual(none.code, "missing_api_key")
      assert.include(none.message, "POST /api/llm/key")
      const open = yield* failureOf({
        provider: "openai-compatible",
        model: "local",
        apiKey: "",
        baseURL: fake.baseUrl
      })
      // It wants a key, and is given none.
      assert.include(open.message, "refuses the key")
      const away = yield* failureOf({ provider: "openai", model: "gpt-4o", apiKey: "sk-own-0123456789" })
      assert.include(away.message, "unreachable")
      assert.lengthOf(fake.requests, 0)
    })
  )

  it.live("calls no private address that the agent was given, unless the operator allows it", () =>
    Effect.gen(function* () {
      for (const baseURL of ["http://127.0.0.1:9/v1", "http://[::ffff:7f00:1]/v1", "http://169.254.169.254/v1", "x"]) {
        const { code, message } = yield* failureOf({ provider: "openai-compatible", model: "m", baseURL }, false)
        assert.strictEqual(code, "invalid_request")
        assert.include(message, "is not an address that this service calls")
      }
      const nowhere = yield* failureOf({ provider: "openai-compatible", model: "m" })
      assert.strictEqual(nowhere.code, "invalid_request")
      assert.include(nowhere.message, "baseURL")
    })
  )

  it.live("knows no provider of another name", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* failureOf({ provider: "nobody", model: "m" })).code, "unknown_model")
    })
  )
})

it.live("an address that fails repeatedly is left alone for a while, and no other one with it", () =>
  Effect.gen(function* () {
    const broken = yield* fakeOpenAi({ strict: false })
    const sound = yield* fakeOpenAi({ strict: false })
    broken.respond(Errors.serverError)
    const failureAt = ({ apiKey, baseUrl }: FakeOpenAi) =>
      Effect.flatMap(CallModel, ({ stream }) =>
        stream({
          workspace: OrganizationId.make("organization"),
          llm: llm({ provider: "openai-compatible", model: "local", apiKey, baseURL: baseUrl }),
          caller: null,
          requestId: "request",
          request: { messages: [question] }
        })
      ).pipe(
        Effect.flatMap(Stream.runDrain),
        Effect.scoped,
        Effect.flip,
        Effect.option,
        Effect.map(Option.getOrUndefined)
      )
    yield* Effect.gen(function* () {
      // Five failures in a row, at once: each is tried three times.
      yield* Effect.all(
        Array.from({ length: 5 }, () => failureAt(broken)),
        { concurrency: "unbounded" }
      )
      const sent = broken.log.length
      const turnedAway = yield* failureAt(broken)
      assert.include(turnedAway?.message, "circuit open")
      assert.strictEqual(broken.log.length, sent)
      assert.isUndefined(yield* failureAt(sound))
    }).pipe(Effect.provide(callModel("http://127.0.0.1:9")))
  })
)
