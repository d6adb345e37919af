import { Option, Predicate, Schema } from "effect"
import type { UpstreamSaid } from "../../Protocol.ts"

const decodeError = Schema.decodeUnknownOption(Schema.Struct({ error: Schema.Struct({ message: Schema.String }) }))

/** The vendor's words in an error body: `{type: "error", error: {type, message}, request_id}`. */
export const errorText = (body: unknown): string | undefined =>
  Option.getOrUndefined(Option.map(decodeError(body), ({ error }) => error.message))

/** An error where an answer or an event was due. */
export const inBandError = (body: unknown): UpstreamSaid | undefined =>
  Predicate.hasProperty(body, "type") && body.type === "error"
    ? { _tag: "UpstreamSaid", detail: errorText(body) ?? JSON.stringify(body) }
    : undefined
