import type { ElicitRequestParams, ElicitResult } from "@modelcontextprotocol/sdk/types.js"
import { Clock, Effect, FiberSet, Latch, Option, Schema } from "effect"
import type { McpElicitor, McpFailed, McpForm, McpFormAnswer } from "../../application/ports/mcp/McpConnector.ts"

/** Questions that a server may ask during one call; more are declined: a person is not to be asked for ever. */
const mostQuestions = 20

/** What a form may have, in characters: of its message, and of its schema as JSON. */
const mostMessage = 4_000
const mostSchema = 64 * 1024

/** A call that runs. */
interface Call {
  readonly elicitor: McpElicitor | undefined
  /** Closed while a person is asked. */
  readonly unasked: Latch.Latch
  readonly ended: Latch.Latch
  open: number
  asked: number
  /** Since when a person is asked. Epoch milliseconds. */
  since: number
  /** How long persons were asked, in milliseconds. */
  waited: number
}

/** The calls of tools on one connection, and what its server asks persons while they run. */
export const make = Effect.fnUntraced(function* (timeout: number) {
  const calls = new Set<Call>()
  const promised = yield* FiberSet.makeRuntimePromise<never, McpFormAnswer>()

  const begin = (all: ReadonlyArray<Call>) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      for (const call of all) {
        call.asked += 1
        call.open += 1
        if (call.open > 1) continue
        call.since = now
        call.unasked.closeUnsafe()
      }
    })

  const end = (all: ReadonlyArray<Call>) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      for (const call of all) {
        call.open -= 1
        if (call.open > 0) continue
        call.waited += now - call.since
        call.unasked.openUnsafe()
      }
    })

  /** Completes when the server had the time of a call, but for that in which a person was asked. */
  const deadline = Effect.fnUntraced(function* (call: Call, late: () => McpFailed, began: number) {
    for (;;) {
      yield* call.unasked.await
      const left = timeout - ((yield* Clock.currentTimeMillis) - began - call.waited)
      if (left <= 0) return yield* late()
      yield* Effect.sleep(left)
    }
  })

  return {
    run: <A>(
      request: Effect.Effect<A, McpFailed>,
      late: () => McpFailed,
      elicitor: McpElicitor | undefined
    ): Effect.Effect<A, McpFailed> =>
      Effect.gen(function* () {
        const call: Call = {
          elicitor,
          unasked: Latch.makeUnsafe(true),
          ended: Latch.makeUnsafe(false),
          open: 0,
          asked: 0,
          since: 0,
          waited: 0
        }
        yield* Effect.acquireRelease(
          Effect.sync(() => calls.add(call)),
          () =>
            Effect.sync(() => {
              calls.delete(call)
              call.ended.openUnsafe()
            })
        )
        return yield* Effect.raceFirst(request, deadline(call, late, yield* Clock.currentTimeMillis))
      }).pipe(Effect.scoped),

    /** The protocol does not say for which call a server asks, so all that run must have the same person to ask. */
    answer: async (params: ElicitRequestParams, signal: AbortSignal): Promise<ElicitResult> => {
      const all = [...calls]
      const elicitor = all[0]?.elicitor
      const form = formOf(params)
      if (elicitor === undefined || form === undefined) return { action: "decline" }
      const isClear = all.every((call) => call.elicitor?.whom === elicitor.whom)
      if (!isClear || all.some(({ asked }) => asked >= mostQuestions)) return { action: "decline" }
      const question = Effect.acquireUseRelease(
        begin(all),
        () => Effect.raceFirst(elicitor.ask(form), Effect.as(allEnded(all), cancelled)),
        () => end(all)
      )
      return resultOf(await promised(question, { signal }))
    }
  }
})

/** Nobody waits for the answer to a question any more. */
const allEnded = (calls: ReadonlyArray<Call>) => Effect.forEach(calls, ({ ended }) => ended.await, { discard: true })

const cancelled: McpFormAnswer = { action: "cancel" }

/** Undefined for what no person can be asked: to open an address, or a form without bounds. */
const formOf = (params: ElicitRequestParams): McpForm | undefined => {
  if (params.mode === "url" || JSON.stringify(params.requestedSchema).length > mostSchema) return undefined
  return { message: params.message.slice(0, mostMessage), schema: params.requestedSchema }
}

/** What the protocol lets a form be filled in with. */
const Filled = Schema.Record(
  Schema.String,
  Schema.Union([Schema.String, Schema.Finite, Schema.Boolean, Schema.mutable(Schema.Array(Schema.String))])
)

const filledIn = Schema.decodeUnknownOption(Filled)

const resultOf = ({ action, content }: McpFormAnswer): ElicitResult => {
  if (action !== "accept") return { action }
  const given = Object.fromEntries(Object.entries(content ?? {}).filter(([, value]) => value !== null))
  const filled = Option.getOrThrowWith(filledIn(given), () => new Error("the form has values that no form can have"))
  return { action, content: filled }
}
