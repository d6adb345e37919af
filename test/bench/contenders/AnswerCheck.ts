import { Effect, Schema } from "effect"
import { fetchText } from "../machine/Http.ts"
import { type BenchModel, completionsPath, frameCount, requestBody } from "../Workload.ts"
import type { Contender } from "./Contender.ts"

export class WrongAnswer extends Schema.TaggedError<WrongAnswer>()("WrongAnswer", {
  contender: Schema.String,
  model: Schema.String,
  answer: Schema.String
}) {
  override get message() {
    return `${this.contender} does not deliver what ${this.model} sends: ${this.answer}`
  }
}

const Usage = Schema.Struct({ total_tokens: Schema.Int })
const Completion = Schema.fromJsonString(
  Schema.Struct({
    choices: Schema.NonEmptyArray(Schema.Struct({ message: Schema.Struct({ content: Schema.NonEmptyString }) })),
    usage: Usage
  })
)
const Frame = Schema.fromJsonString(
  Schema.Struct({ choices: Schema.Array(Schema.Unknown), usage: Schema.optional(Schema.NullOr(Usage)) })
)

const isWhole = (text: string) =>
  Effect.gen(function* () {
    const data = text
      .split("\n")
      .filter((line) => line.startsWith("data: "))
      .map((line) => line.slice(6))
    if (data.pop() !== "[DONE]") return false
    const frames = yield* Effect.forEach(data, (line) => Schema.decodeUnknownEffect(Frame)(line))
    const filled = frames.filter((frame) => frame.choices.length > 0)
    return filled.length === frameCount && frames.at(-1)?.usage?.total_tokens !== undefined
  })

const isRight = (model: BenchModel, text: string) =>
  model === "bench-json" ? Effect.as(Schema.decodeUnknownEffect(Completion)(text), true) : isWhole(text)

/** A contender that drops or cuts what it forwards would win every load: each model is checked once before any. */
export const checkAnswers = Effect.fn("checkAnswers")(function* (contender: Contender) {
  for (const model of ["bench-json", "bench-burst", "bench-late", "bench-paced"] as const) {
    const text = yield* fetchText(`${contender.origin}${completionsPath}`, {
      method: "POST",
      headers: { ...contender.headers, "content-type": "application/json" },
      body: requestBody(model)
    })
    const right = yield* isRight(model, text).pipe(Effect.orElseSucceed(() => false))
    if (!right) {
      return yield* new WrongAnswer({ contender: contender.name, model, answer: text.slice(0, 2000) })
    }
  }
})
