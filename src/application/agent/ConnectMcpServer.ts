import { Context, Effect, Layer, Redacted, Schema } from "effect"
import type { McpServerConfig } from "../../domain/agent/AgentConfig.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { AgentYaml } from "../ports/files/AgentYaml.ts"
import type { McpFailed } from "../ports/mcp/McpConnector.ts"
import { Egress, type ForbiddenAddress } from "../ports/runtime/Egress.ts"
import { AgentConfigs, type SaveFailure } from "./AgentConfigs.ts"
import type { NoCurrentAgent } from "./CurrentAgent.ts"
import { Environment } from "./Environment.ts"
import { type AgentNotRunnable, RunningAgents } from "./RunningAgents.ts"

/** An agent's configuration with this server would have mistakes. */
export class InvalidMcpServer extends Schema.TaggedError<InvalidMcpServer>()("InvalidMcpServer", {
  message: Schema.String
}) {}

export interface ServerToConnect {
  readonly name: string
  /** As in an agent's YAML (decisions 4): variables of `.env` are expanded. */
  readonly config: McpServerConfig
  /** Whether it is written into the agent's YAML, so that it is there whenever the agent runs. */
  readonly persist: boolean
}

/**
 * Connects the running agent of a workspace with an MCP server (decisions 6), in the place of the one of this name if
 * there is one. One that cannot be connected changes nothing.
 */
export class ConnectMcpServer extends Context.Service<
  ConnectMcpServer,
  {
    readonly run: (
      workspace: OrganizationId,
      server: ServerToConnect
    ) => Effect.Effect<void, InvalidMcpServer | ForbiddenAddress | McpFailed | AgentNotRunnable | SaveFailure>
  }
>()("gateway/agent/ConnectMcpServer") {
  static readonly layer = Layer.effect(
    ConnectMcpServer,
    Effect.gen(function* () {
      const agents = yield* RunningAgents
      const configs = yield* AgentConfigs
      const environment = yield* Environment
      const yaml = yield* AgentYaml
      const egress = yield* Egress

      const run = Effect.fn("ConnectMcpServer.run")(function* (
        workspace: OrganizationId,
        { config, name, persist }: ServerToConnect
      ): Effect.fn.Return<
        void,
        InvalidMcpServer | ForbiddenAddress | McpFailed | AgentNotRunnable | NoCurrentAgent | SaveFailure
      > {
        const { file, mcp } = yield* agents.of(workspace)
        const edit = { path: ["mcpServers", name], value: config }
        const variables = yield* environment.variables(workspace)
        // What the server means in the agent's configuration, read as that is read.
        const { errors, valid } = yaml.read(
          yaml.edit(file.text, [edit]),
          new Map([...variables].map(([variable, value]) => [variable, Redacted.value(value)]))
        )
        const server = valid?.config.mcpServers.get(name)
        if (server === undefined) {
          const mistakes = errors.map(({ message, path }) => `${path}: ${message}`).join("; ")
          return yield* new InvalidMcpServer({ message: mistakes === "" ? "It cannot be configured." : mistakes })
        }
        if (server.type !== "stdio") yield* egress.check(server.url)
        yield* mcp.add(name, server)
        if (persist) {
          // Half of it would be a server that is gone when the agent is started anew, which nobody asked for.
          yield* Effect.onError(configs.edit(workspace, [edit]), () => Effect.ignore(mcp.remove(name), { log: false }))
        }
      })

      return ConnectMcpServer.of({ run })
    })
  )
}
