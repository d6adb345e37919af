import { Array, Effect, Option, Schema } from "effect"
import { typeOfBytes } from "../../../domain/conversation/MediaType.ts"
import type { ContentPart } from "../../../domain/conversation/Message.ts"
import type { TurnRef } from "../../../domain/conversation/Turn.ts"
import { mcpUri } from "../../../domain/resource/Resource.ts"
import type { McpToolResult } from "../../ports/mcp/McpConnector.ts"
import type { ToolOutcome } from "../AgentTool.ts"
import { type KeptMedia, partOf } from "../KeptMedia.ts"
import { decode } from "../LongBase64.ts"
import { bounded, mostShown } from "./Outcomes.ts"

/** Parts of an answer beyond these are left out: each may become a blob. */
const mostParts = 100

const optional = Schema.optional(Schema.String)

/** The parts that the protocol knows. */
const Part = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }),
  Schema.Struct({ type: Schema.Literals(["image", "audio"]), data: Schema.String, mimeType: Schema.String }),
  Schema.Struct({
    type: Schema.Literal("resource"),
    resource: Schema.Struct({ uri: Schema.String, mimeType: optional, text: optional, blob: optional })
  }),
  Schema.Struct({
    type: Schema.Literal("resource_link"),
    uri: Schema.String,
    name: optional,
    description: optional,
    mimeType: optional
  })
])
type Part = typeof Part.Type

const decodePart = Schema.decodeUnknownOption(Part)

const jsonOf = Schema.decodeUnknownOption(Schema.JsonObject)

/** What becomes of a part. */
interface Told {
  readonly text: string
  readonly shown: Schema.JsonObject
  readonly media?: ContentPart | undefined
}

/** What a server's tool answered, for the model and for listeners. Bytes are kept as blobs of the session. */
export const outcomeOf = Effect.fnUntraced(function* (
  kept: KeptMedia["Service"],
  { session, workspace }: TurnRef,
  server: string,
  { content, isError, structuredContent }: McpToolResult
) {
  /** Of bytes: their address, which `read_resource` takes. */
  const stored = Effect.fnUntraced(function* (
    what: string,
    mimeType: string,
    data: string,
    show: (address: string) => Schema.JsonObject
  ) {
    const bytes = Option.getOrElse(yield* decode(data), () => new Uint8Array())
    const uri = yield* kept.keep(workspace, session, { bytes, mimeType })
    const seen = typeOfBytes(bytes)
    const media = uri === undefined || seen === undefined ? undefined : partOf(uri, seen, undefined)
    const where = uri ?? "it could not be kept"
    const told: Told = { text: `[${what} (${mimeType}): ${where}]`, shown: show(uri ?? ""), media }
    return told
  })

  const tell = Effect.fnUntraced(function* (part: Part) {
    switch (part.type) {
      case "text":
        return told(part.text, { type: "text", text: part.text })
      case "image":
      case "audio": {
        const { data, mimeType, type } = part
        return yield* stored(type === "image" ? "Image" : "Audio", mimeType, data, (address) => ({
          type,
          data: address,
          mimeType
        }))
      }
      case "resource": {
        const { blob, mimeType = blob === undefined ? "text/plain" : "application/octet-stream", uri } = part.resource
        if (blob === undefined) {
          const text = part.resource.text ?? ""
          return told(`Resource ${uri}:\n${text}`, { type: "resource", resource: { uri, mimeType, text } })
        }
        return yield* stored(`Resource ${uri}`, mimeType, blob, (address) => ({
          type: "resource",
          resource: { uri, mimeType, blob: address }
        }))
      }
      case "resource_link": {
        const { description = "", mimeType, name = part.uri, uri } = part
        const address = mcpUri(server, uri)
        return told(`[Resource ${name}: ${address}]${description === "" ? "" : ` ${description}`}`, {
          type: "resource_link",
          uri: address,
          name,
          description,
          ...(mimeType === undefined ? {} : { mimeType })
        })
      }
    }
  })

  const parts = yield* Effect.forEach(content.slice(0, mostParts), (given) =>
    Option.match(decodePart(given), {
      onSome: tell,
      onNone: () => Effect.succeed(unknownPart(given))
    })
  )
  const left = content.length - parts.length
  if (left > 0) parts.push(textTold(`[${left} more parts were left out.]`))
  const structured = structuredContent === undefined ? Option.none() : jsonOf(structuredContent)
  // Servers say in texts too what is in it; those that do not say it there.
  if (Option.isSome(structured) && !content.some(({ type }) => type === "text")) {
    parts.push(textTold(JSON.stringify(structured.value)))
  }
  const text = parts.map(({ text }) => text).join("\n")
  const media = Array.getSomes(parts.map(({ media }) => Option.fromUndefinedOr(media)))
  const outcome: ToolOutcome = {
    success: !isError,
    text: bounded(
      text === "" ? (isError ? "The tool failed and did not say why." : "The tool answered nothing.") : text
    ),
    ...(media.length === 0 ? {} : { media }),
    content: shownOf(parts),
    meta: Option.match(Option.filter(structured, isSmall), {
      onNone: () => ({}),
      onSome: (structuredContent) => ({ structuredContent })
    })
  }
  return outcome
})

const told = (text: string, shown: Schema.JsonObject): Told => ({ text, shown })

const textTold = (text: string): Told => told(text, { type: "text", text })

/** Of a later version of the protocol. */
const unknownPart = (given: Readonly<Record<string, unknown>>): Told => textTold(bounded(JSON.stringify(given)))

/** All of them together have no more text than listeners are shown of one. */
const shownOf = (parts: ReadonlyArray<Told>): ReadonlyArray<Schema.Json> => {
  let left = mostShown
  return parts.flatMap(({ shown, text }): ReadonlyArray<Schema.Json> => {
    if (left <= 0) return []
    const size = JSON.stringify(shown).length
    const fits = size <= left
    const part = fits ? shown : { type: "text", text: bounded(text, left) }
    left -= size
    return [part]
  })
}

const isSmall = (value: Schema.JsonObject): boolean => JSON.stringify(value).length <= mostShown
