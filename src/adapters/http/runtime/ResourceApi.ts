import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Resource, ServerResource } from "../../../domain/resource/Resource.ts"
import { messageError } from "./envelopes/MessageEnvelope.ts"

const ResourceWire = Resource.annotate({ identifier: "Resource" })

const ContentWire = Schema.Struct({
  contents: Schema.Array(
    Schema.Struct({
      uri: Schema.String,
      mimeType: Schema.String,
      text: Schema.String.pipe(
        Schema.annotateKey({ description: "In place of binary content a line that names the file and its bytes." })
      )
    })
  ),
  _meta: Schema.Struct({
    size: Schema.Int.pipe(Schema.annotateKey({ description: "Bytes." })),
    isBinary: Schema.optionalKey(Schema.Literal(true)),
    originalMimeType: Schema.optionalKey(Schema.String),
    isTruncated: Schema.optionalKey(
      Schema.Literal(true).pipe(
        Schema.annotateKey({ description: "The text is the beginning of a file of more than 10 MB." })
      )
    )
  })
}).annotate({ identifier: "ResourceContent" })

const ServerResourceWire = ServerResource.annotate({
  identifier: "McpServerResource",
  description: "`originalUri` is what the server calls it: its resource id."
})

const anyUri = Schema.String.pipe(
  Schema.annotateKey({ description: "The URI of the resource, URI-encoded as a whole: `fs:///…`, `blob:…`, `mcp:…`." })
)

const serverId = Schema.String.pipe(Schema.annotateKey({ description: "The name of an MCP server." }))

const missing = messageError(404, "There is no such resource, or none that may be read.")
const unavailable = messageError(502, "The MCP server that has it does not answer, or answers nonsense.")

/** Resources (section 4.8). */
export const ResourceApi = HttpApiGroup.make("resources")
  .add(
    HttpApiEndpoint.get("listResources", "/api/resources", {
      success: Schema.Struct({ ok: Schema.Literal(true), resources: Schema.Array(ResourceWire) })
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "listResources",
        summary: "List what the agent can read",
        description:
          "Files below the roots of the agent's `internalResources`, blobs, and what its MCP servers offer. A server " +
          "that is away is missing."
      })
    )
  )
  .add(
    HttpApiEndpoint.get("readResource", "/api/resources/:resourceId/content", {
      params: { resourceId: anyUri },
      success: Schema.Struct({ ok: Schema.Literal(true), content: ContentWire }),
      error: [missing, unavailable]
    }).annotateMerge(OpenApi.annotations({ identifier: "readResource", summary: "Read a resource" }))
  )
  .add(
    HttpApiEndpoint.head("findResource", "/api/resources/:resourceId", {
      params: { resourceId: anyUri },
      success: HttpApiSchema.Empty(200).annotate({ description: "It exists." }),
      error: HttpApiSchema.Empty(404).annotate({ description: "It cannot be found." })
    }).annotateMerge(OpenApi.annotations({ identifier: "findResource", summary: "Whether a resource exists" }))
  )
  .add(
    HttpApiEndpoint.get("listMcpServerResources", "/api/mcp/servers/:serverId/resources", {
      params: { serverId },
      success: Schema.Struct({ success: Schema.Literal(true), resources: Schema.Array(ServerResourceWire) }),
      error: [messageError(404, "There is no such MCP server."), unavailable]
    }).annotateMerge(
      OpenApi.annotations({ identifier: "listMcpServerResources", summary: "List what an MCP server offers" })
    )
  )
  .add(
    HttpApiEndpoint.get("readMcpServerResource", "/api/mcp/servers/:serverId/resources/:resourceId/content", {
      params: {
        serverId,
        resourceId: Schema.String.pipe(
          Schema.annotateKey({ description: "What the server calls it, its `originalUri`, URI-encoded." })
        )
      },
      success: Schema.Struct({ success: Schema.Literal(true), data: Schema.Struct({ content: ContentWire }) }),
      error: [missing, unavailable]
    }).annotateMerge(
      OpenApi.annotations({ identifier: "readMcpServerResource", summary: "Read a resource of an MCP server" })
    )
  )
