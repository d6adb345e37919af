import { Effect, Predicate } from "effect"
import type { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { ConnectMcpServer } from "../../../application/agent/ConnectMcpServer.ts"
import { RunningAgents } from "../../../application/agent/RunningAgents.ts"
import type { McpFailed, McpTool } from "../../../application/ports/mcp/McpConnector.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const McpHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "mcp",
  Effect.fnUntraced(function* (handlers) {
    const connect = yield* ConnectMcpServer
    const agents = yield* RunningAgents

    const servers = Effect.flatMap(CurrentWorkspace, ({ id }) => Effect.map(agents.of(id), ({ mcp }) => mcp))

    return handlers
      .handle(
        "connectMcpServer",
        Effect.fnUntraced(
          function* ({ payload: { config, name, persistToAgent = false } }) {
            yield* connect.run((yield* CurrentWorkspace).id, { name, config, persist: persistToAgent })
            return { status: "connected" as const, name }
          },
          Effect.catchTags({
            AgentFileInvalid: answer(400),
            AgentNotRunnable: answer(409),
            AgentNotStarted: answer(409),
            ForbiddenAddress: answer(400),
            InvalidMcpServer: answer(400),
            McpFailed: unreachable,
            NoCurrentAgent: answer(409),
            WorkspaceConflict: answer(409)
          })
        )
      )
      .handle("listMcpServers", () =>
        servers.pipe(
          Effect.flatMap(({ list }) => list),
          Effect.map((listed) => ({ servers: listed })),
          Effect.catchTags(notRunning)
        )
      )
      .handle(
        "removeMcpServer",
        Effect.fnUntraced(
          function* ({ params: { serverId } }) {
            yield* (yield* servers).remove(serverId)
            return { status: "deleted" as const, id: serverId }
          },
          Effect.catchTags({ ...notRunning, UnknownMcpServer: answer(404) })
        )
      )
      .handle(
        "restartMcpServer",
        Effect.fnUntraced(
          function* ({ params: { serverId } }) {
            yield* (yield* servers).restart(serverId)
            return { status: "restarted" as const, id: serverId }
          },
          Effect.catchTags({ ...notRunning, UnknownMcpServer: answer(404), McpFailed: answer(502) })
        )
      )
      .handle(
        "listMcpServerTools",
        Effect.fnUntraced(
          function* ({ params: { serverId } }) {
            const { tools } = yield* (yield* servers).connection(serverId)
            return { tools: (yield* tools).map((tool) => ({ id: tool.name, ...tool })) }
          },
          Effect.catchTags({ ...notRunning, UnknownMcpServer: answer(404), McpFailed: answer(502) })
        )
      )
      .handle(
        "executeMcpServerTool",
        Effect.fnUntraced(
          function* ({ params: { serverId, toolId }, payload }) {
            const connection = yield* (yield* servers).connection(serverId)
            const tool = (yield* connection.tools).find(({ name }) => name === toolId)
            if (tool === undefined) return messageEnvelope(404, unknownTool(serverId, toolId))
            const { isError, ...data } = yield* connection.callTool(toolId, argumentsIn(payload, tool))
            return { success: !isError, data }
          },
          Effect.catchTags({ ...notRunning, UnknownMcpServer: answer(404), McpFailed: late })
        )
      )
  })
)

const answer =
  (status: number) =>
  ({ message }: { readonly message: string }): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
    Effect.succeed(messageEnvelope(status, message))

const notRunning = { NoCurrentAgent: answer(409), AgentNotRunnable: answer(409) }

const unreachable = (failure: McpFailed) => answer(failure.reason === "forbidden address" ? 400 : 502)(failure)

const late = (failure: McpFailed) => answer(failure.reason === "deadline" ? 504 : 502)(failure)

/** What a body gives a tool: itself, or what stands under its one key `arguments` if the tool has none of that name. */
const argumentsIn = (body: Readonly<Record<string, unknown>>, { inputSchema }: McpTool) => {
  const { arguments: inner, ...rest } = body
  if (!Predicate.isObject(inner) || Object.keys(rest).length > 0) return body
  const { properties } = inputSchema
  return Predicate.isObject(properties) && Object.hasOwn(properties, "arguments") ? body : { ...inner }
}

const unknownTool = (server: string, tool: string): string =>
  `MCP server ${JSON.stringify(server)} has no tool ${JSON.stringify(tool)}. GET /api/mcp/servers/${server}/tools lists them.`
