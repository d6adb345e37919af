import { Option, Schema } from "effect"

/**
 * What a vendor needs back to go on after a tool call: signatures or encrypted reasoning that the contract's messages
 * have no field for. It travels in the id of a tool call of the answer, the one thing that every client returns
 * unchanged; so it needs no store, and any replica can go on. Ids without it are the vendor's own.
 */
const separator = "~r1~"

const Payload = Schema.StringFromBase64Url.pipe(Schema.decodeTo(Schema.fromJsonString(Schema.Json)))
const encode = Schema.encodeSync(Payload)
const decode = Schema.decodeUnknownOption(Payload)

/** The id for the client. */
export const attach = (id: string, payload: Schema.Json): string => `${id}${separator}${encode(payload)}`

/** The vendor's own id, as every wire has to send it. */
export const detach = (id: string): string => {
  const at = id.indexOf(separator)
  return at === -1 ? id : id.slice(0, at)
}

/** What came with an id. Whoever made up an id of its own gets none: a vendor judges what it is sent. */
export const payloadOf = (id: string): Option.Option<Schema.Json> => {
  const at = id.indexOf(separator)
  return at === -1 ? Option.none() : decode(id.slice(at + separator.length))
}
