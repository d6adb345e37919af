import { Duration, Effect, Option, Schema } from "effect"
import type { ApprovalAnswer } from "../../../domain/conversation/Approval.ts"
import type { McpServers } from "../../agent/McpServers.ts"
import type { McpElicitor, McpForm, McpFormAnswer, McpTool } from "../../ports/mcp/McpConnector.ts"
import type { AgentTool, ToolCallContext } from "../AgentTool.ts"
import type { KeptMedia } from "../KeptMedia.ts"
import { outcomeOf } from "./McpContent.ts"
import { bounded, failed } from "./Outcomes.ts"
import { namesOf } from "./ToolNames.ts"

/** How long a turn waits for the tools of servers that are slow, or just being connected. */
const patience = Duration.seconds(5)

/** Characters of what a tool says of itself, and of its schema as JSON: all of it is part of every request. */
const mostDescription = 8_000
const mostSchema = 64 * 1024

/** The tools of an agent's MCP servers. Those of a server that is away are missing, and the log says so. */
export const mcpTools = Effect.fnUntraced(function* (servers: McpServers, kept: KeptMedia["Service"]) {
  const listed = yield* servers.list
  const found = yield* Effect.forEach(listed, ({ id }) => offeredBy(servers, id), { concurrency: "unbounded" })
  const offered = found.flat()
  const names = namesOf(offered.map(({ server, tool }) => [server, tool.name]))
  return offered.flatMap(({ parameters, server, tool }, index): ReadonlyArray<AgentTool> => {
    const name = names[index]
    return name === undefined
      ? []
      : [
          {
            ...name,
            description: bounded(tool.description, mostDescription),
            parameters,
            isIdempotent: tool.isIdempotent,
            asksItself: false,
            run: (args, call) =>
              servers.connection(server).pipe(
                Effect.flatMap((connection) => connection.callTool(tool.name, args, elicitorOf(server, call))),
                Effect.flatMap((result) => outcomeOf(kept, call.turn, server, result)),
                Effect.catch(({ message }) => Effect.succeed(failed(message)))
              )
          }
        ]
  })
})

interface Offered {
  readonly server: string
  readonly tool: McpTool
  readonly parameters: Schema.JsonObject
}

const offeredBy = (servers: McpServers, server: string): Effect.Effect<ReadonlyArray<Offered>> =>
  Effect.gen(function* () {
    const { tools } = yield* servers.connection(server)
    const offered: Array<Offered> = []
    for (const tool of yield* tools) {
      const parameters = parametersOf(tool)
      if (Option.isSome(parameters)) offered.push({ server, tool, parameters: parameters.value })
      else yield* Effect.logWarning("A tool is left out: its schema is too large.", { server, tool: tool.name })
    }
    return offered
  }).pipe(
    Effect.timeoutOrElse({
      duration: patience,
      orElse: () => Effect.as(Effect.logWarning("An MCP server does not list its tools.", { server }), [])
    }),
    Effect.catch(({ message }) =>
      Effect.as(Effect.logWarning("The tools of an MCP server are missing.", { server, reason: message }), [])
    )
  )

const jsonOf = Schema.decodeUnknownOption(Schema.JsonObject)

/** Some vendors take no schema of an object that does not say which fields it has. */
const parametersOf = ({ inputSchema }: McpTool): Option.Option<Schema.JsonObject> =>
  jsonOf({ ...inputSchema, type: "object", properties: inputSchema["properties"] ?? {} }).pipe(
    Option.filter((schema) => JSON.stringify(schema).length <= mostSchema)
  )

/** Asks in the session of the call. */
const elicitorOf = (serverName: string, { elicit, turn }: ToolCallContext): McpElicitor => ({
  whom: turn.session,
  ask: (form: McpForm) =>
    Option.match(jsonOf(form.schema), {
      onNone: () => Effect.succeed<McpFormAnswer>({ action: "decline" }),
      onSome: (schema) => Effect.map(elicit({ message: form.message, schema, serverName }), answerOf)
    })
})

const answerOf = ({ formData = {}, status }: ApprovalAnswer): McpFormAnswer =>
  status === "approved"
    ? { action: "accept", content: formData }
    : { action: status === "denied" ? "decline" : "cancel" }
