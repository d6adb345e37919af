import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { McpServerConfig } from "../../../domain/agent/AgentConfig.ts"
import { bodyMayBeAbsent } from "./Described.ts"
import { BodyMayBeAbsent } from "./envelopes/Envelope.ts"
import { messageError } from "./envelopes/MessageEnvelope.ts"

const ServerName = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, {
    expected: "1 to 64 letters, digits, dots, hyphens and underscores, starting with a letter or a digit"
  })
)

const server = {
  params: {
    serverId: Schema.String.pipe(Schema.annotateKey({ description: "The name of an MCP server, URI-encoded." }))
  }
}

const notRunning = messageError(409, "No agent is active, or the active one cannot run.")
const unknownServer = messageError(404, "There is no such MCP server.")
const away = messageError(502, "The server cannot be reached, broke off, or answers nonsense.")

const Outcome = <Status extends string>(status: Status) =>
  Schema.Struct({ status: Schema.Literal(status), id: Schema.String })

/** MCP servers of the running agent (decisions 6). */
export const McpApi = HttpApiGroup.make("mcp")
  .add(
    HttpApiEndpoint.post("connectMcpServer", "/api/mcp/servers", {
      payload: Schema.Struct({
        name: ServerName,
        config: McpServerConfig.annotate({ identifier: "McpServerConfig" }),
        persistToAgent: Schema.optionalKey(
          Schema.Boolean.pipe(
            Schema.annotateKey({
              description:
                "Write the server into the agent's YAML. Otherwise it is there until the agent is started anew."
            })
          )
        )
      }),
      success: Schema.Struct({ status: Schema.Literal("connected"), name: Schema.String }),
      error: [
        messageError(400, "The configuration has mistakes, or its address is one that this service does not call."),
        messageError(409, "No agent can run, or its configuration was changed by another operation at the same time."),
        messageError(502, "The server cannot be connected: nothing was changed.")
      ]
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "connectMcpServer",
        summary: "Connect an MCP server",
        description:
          "Takes the place of the server of this name, if there is one. `$VAR` in its values is a variable of `.env`."
      })
    )
  )
  .add(
    HttpApiEndpoint.get("listMcpServers", "/api/mcp/servers", {
      success: Schema.Struct({
        servers: Schema.Array(
          Schema.Struct({
            id: Schema.String,
            name: Schema.String,
            status: Schema.Literals(["connected", "error"]),
            error: Schema.optionalKey(
              Schema.String.pipe(Schema.annotateKey({ description: "Why it is not connected." }))
            )
          })
        )
      }),
      error: [notRunning]
    }).annotateMerge(OpenApi.annotations({ identifier: "listMcpServers", summary: "List the agent's MCP servers" }))
  )
  .add(
    HttpApiEndpoint.delete("removeMcpServer", "/api/mcp/servers/:serverId", {
      ...server,
      success: Outcome("deleted"),
      error: [unknownServer, notRunning]
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "removeMcpServer",
        summary: "Disconnect an MCP server",
        description: "Of the running agent. One of the agent's YAML is there again when the agent is started anew."
      })
    )
  )
  .add(
    HttpApiEndpoint.post("restartMcpServer", "/api/mcp/servers/:serverId/restart", {
      ...server,
      success: Outcome("restarted"),
      error: [unknownServer, notRunning, away]
    }).annotateMerge(
      OpenApi.annotations({ identifier: "restartMcpServer", summary: "End the connection and make it again" })
    )
  )
  .add(
    HttpApiEndpoint.get("listMcpServerTools", "/api/mcp/servers/:serverId/tools", {
      ...server,
      success: Schema.Struct({
        tools: Schema.Array(
          Schema.Struct({
            id: Schema.String,
            name: Schema.String,
            description: Schema.String,
            inputSchema: Schema.Record(Schema.String, Schema.Unknown)
          })
        )
      }),
      error: [unknownServer, notRunning, away]
    }).annotateMerge(OpenApi.annotations({ identifier: "listMcpServerTools", summary: "List an MCP server's tools" }))
  )
  .add(
    HttpApiEndpoint.post("executeMcpServerTool", "/api/mcp/servers/:serverId/tools/:toolId/execute", {
      params: {
        ...server.params,
        toolId: Schema.String.pipe(Schema.annotateKey({ description: "The name of a tool, URI-encoded." }))
      },
      payload: Schema.Record(Schema.String, Schema.Unknown).annotate({
        description: "The tool's arguments, by themselves or under the one key `arguments`."
      }),
      success: Schema.Struct({
        success: Schema.Boolean.pipe(Schema.annotateKey({ description: "False if the tool itself failed." })),
        data: Schema.Struct({
          content: Schema.Array(Schema.Record(Schema.String, Schema.Unknown)),
          structuredContent: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown))
        }).annotate({ description: "What the tool said, in the parts that the protocol has." })
      }),
      error: [
        messageError(400, "The body has mistakes."),
        messageError(404, "There is no such MCP server, or it has no such tool."),
        notRunning,
        away,
        messageError(504, "The server did not answer within its `timeout`.")
      ]
    })
      .annotate(BodyMayBeAbsent, true)
      .annotateMerge(
        OpenApi.annotations({
          identifier: "executeMcpServerTool",
          transform: bodyMayBeAbsent,
          summary: "Run a tool",
          description: "At once, without an approval."
        })
      )
  )
