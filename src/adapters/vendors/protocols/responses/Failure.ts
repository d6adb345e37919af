import { Option, Schema } from "effect"
import type { UpstreamSaid } from "../../Protocol.ts"

export const said = (detail: string): UpstreamSaid => ({ _tag: "UpstreamSaid", detail })

const Said = Schema.Struct({ message: Schema.String })

const decode = Schema.decodeUnknownOption(
  Schema.Union([Schema.Struct({ error: Said }), Schema.Struct({ response: Schema.Struct({ error: Said }) }), Said])
)

/** The vendor's words in a failed response, or in an event of one: they stand at several places. */
export const failureOf = (body: unknown): UpstreamSaid =>
  said(
    Option.match(decode(body), {
      onNone: () => JSON.stringify(body),
      onSome: (found) =>
        "error" in found ? found.error.message : "response" in found ? found.response.error.message : found.message
    })
  )
