import { Schema } from "effect"

/** Something that an agent can read (section 2.9): a file, a blob, or what an MCP server offers. */
export const Resource = Schema.Struct({
  uri: Schema.String,
  name: Schema.optionalKey(Schema.String),
  description: Schema.optionalKey(Schema.String),
  mimeType: Schema.optionalKey(Schema.String),
  source: Schema.Literals(["mcp", "internal"]),
  /** The MCP server that it comes from. */
  serverName: Schema.optionalKey(Schema.String),
  /** Bytes. */
  size: Schema.optionalKey(Schema.Int),
  /** ISO 8601. */
  lastModified: Schema.optionalKey(Schema.String),
  metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
})
export type Resource = typeof Resource.Type

/** What an MCP server offers. */
export const ServerResource = Schema.Struct({
  ...Resource.fields,
  serverName: Schema.String,
  /** What the server calls it. */
  originalUri: Schema.String
})
export type ServerResource = typeof ServerResource.Type

/** Unknown, forbidden and outside are the same (decisions 8). */
export class ResourceNotFound extends Schema.TaggedError<ResourceNotFound>()("ResourceNotFound", {
  uri: Schema.String
}) {
  override get message() {
    return `There is no resource ${JSON.stringify(this.uri)}. GET /api/resources lists them.`
  }
}

/** The address of a file: its absolute path as it is, without escapes. */
export const fileUri = (path: string): string => `fs://${path}`

/** The absolute path in such an address; undefined if it is none. */
export const pathOfFileUri = (uri: string): string | undefined =>
  uri.startsWith("fs:///") ? uri.slice("fs://".length) : undefined

/** The address of what an MCP server calls `id`, mostly an address of its own. */
export const mcpUri = (server: string, id: string): string => `mcp:${server}:${id}`
