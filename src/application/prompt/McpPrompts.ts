import { Duration, Effect } from "effect"
import type { Prompt } from "../../domain/prompt/Prompt.ts"
import type { RunningAgent } from "../agent/RunningAgents.ts"
import type { McpConnection, McpPrompt } from "../ports/mcp/McpConnector.ts"

/** A prompt of a connected MCP server. It is named as tools are: `server--prompt`. */
export interface OfferedPrompt {
  readonly prompt: Prompt
  readonly server: string
  /** What the server itself calls it. */
  readonly nameThere: string
  readonly connection: McpConnection
}

/** How long one server may hold up the list of all. */
const patience = Duration.seconds(5)

/** What the servers of a running agent offer, in their order. One that is away has none, and the log says so. */
export const offeredPrompts = ({ mcp }: RunningAgent): Effect.Effect<ReadonlyArray<OfferedPrompt>> =>
  Effect.flatMap(mcp.list, (servers) =>
    Effect.map(
      Effect.forEach(
        servers.filter(({ status }) => status === "connected"),
        ({ id }) =>
          Effect.gen(function* () {
            const connection = yield* mcp.connection(id)
            return (yield* connection.prompts).map((prompt) => offered(id, prompt, connection))
          }).pipe(
            Effect.timeout(patience),
            Effect.catch((error) =>
              Effect.as(Effect.logWarning(`The prompts of MCP server ${id} are left out: ${error.message}`), [])
            )
          ),
        { concurrency: "unbounded" }
      ),
      (lists) => lists.flat()
    )
  )

const offered = (
  server: string,
  { arguments: declared, description, name }: McpPrompt,
  connection: McpConnection
): OfferedPrompt => ({
  prompt: { name: `${server}--${name}`, description, arguments: declared, source: "mcp" },
  server,
  nameThere: name,
  connection
})
