import { Effect, Schema } from "effect"

export class UnexpectedAnswer extends Schema.TaggedError<UnexpectedAnswer>()("UnexpectedAnswer", {
  url: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `${this.url}: ${this.reason}`
  }
}

/** The body of a 200, as text. For control and checks, never for measuring. */
export const fetchText = Effect.fn("fetchText")(function* (url: string, init: RequestInit = {}) {
  return yield* Effect.tryPromise({
    try: async (signal) => {
      const response = await fetch(url, { ...init, signal })
      const text = await response.text()
      if (response.status !== 200) throw new Error(`status ${response.status}: ${text.slice(0, 500)}`)
      return text
    },
    catch: (cause) => new UnexpectedAnswer({ url, reason: String(cause) })
  }).pipe(
    Effect.timeoutOrElse({
      duration: "20 seconds",
      orElse: () => Effect.fail(new UnexpectedAnswer({ url, reason: "no answer within 20 seconds" }))
    })
  )
})

export const getJson = <S extends Schema.ConstraintDecoder<unknown>>(url: string, schema: S) =>
  fetchText(url).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(Schema.fromJsonString(schema))),
    Effect.catchTag("SchemaError", (error) => Effect.fail(new UnexpectedAnswer({ url, reason: error.message })))
  )
