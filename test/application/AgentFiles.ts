import { Effect, Layer, Option, PubSub, Schema, Stream } from "effect"
import { AgentBackups } from "../../src/application/agent/AgentBackups.ts"
import { type AgentFile, CurrentAgent, NoCurrentAgent } from "../../src/application/agent/CurrentAgent.ts"
import { Environment } from "../../src/application/agent/Environment.ts"
import { RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import { AgentYaml } from "../../src/application/ports/files/AgentYaml.ts"
import { type WorkspaceChange, WorkspaceFiles } from "../../src/application/ports/files/WorkspaceFiles.ts"
import { AgentId } from "../../src/domain/agent/Agent.ts"
import { AgentDocument, type McpServerConfig } from "../../src/domain/agent/AgentConfig.ts"
import { effectiveConfig } from "../../src/domain/agent/EffectiveConfig.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { WorkspacePath } from "../../src/domain/workspace/WorkspacePath.ts"

/** An agent's file, here in JSON. */
export const fileOf = (document: object, id = "agent"): AgentFile => ({
  id: AgentId.make(id),
  name: id,
  path: WorkspacePath.make(`agents/${id}/${id}.yml`),
  text: JSON.stringify(document),
  version: "1",
  lastModified: 0,
  isDefault: false
})

export const documentWith = (mcpServers: Readonly<Record<string, McpServerConfig>>, more: object = {}) => ({
  systemPrompt: "You help.",
  llm: { provider: "openai", model: "gpt" },
  mcpServers,
  ...more
})

const Document = Schema.fromJsonString(AgentDocument)

/** Running agents over files that a test changes; what connects with MCP servers is left open. */
export const agentFiles = (initial: AgentFile) => {
  let file: AgentFile | undefined = initial
  const changes = Effect.runSync(PubSub.unbounded<WorkspaceChange>())
  const unused = () => Effect.die(new Error("no test needs it"))
  const layer = RunningAgents.layer.pipe(
    Layer.provide(
      Layer.mergeAll(
        Layer.succeed(AgentBackups, { keeping: unused, recover: () => Effect.void }),
        Layer.succeed(CurrentAgent, {
          registry: unused,
          file: () =>
            Effect.suspend(() => (file === undefined ? Effect.fail(new NoCurrentAgent()) : Effect.succeed(file))),
          replace: unused
        }),
        Layer.succeed(Environment, { variables: () => Effect.succeed(new Map()), set: unused }),
        Layer.succeed(AgentYaml, {
          read: (text) => {
            const document = Schema.decodeUnknownOption(Document)(text)
            const wrong = {
              line: 1,
              column: 1,
              path: "llm",
              message: "Expected a model.",
              code: "invalid_type"
            } as const
            return Option.isNone(document)
              ? { errors: [wrong], warnings: [], valid: undefined }
              : {
                  errors: [],
                  warnings: [],
                  valid: { document: document.value, config: effectiveConfig(document.value) }
                }
          },
          edit: (text) => text,
          write: String,
          parse: () => undefined
        }),
        Layer.succeed(WorkspaceFiles, {
          root: unused,
          read: unused,
          list: unused,
          commit: unused,
          changes: Stream.fromPubSub(changes)
        })
      )
    )
  )
  return {
    layer,
    put: (next: AgentFile | undefined) => {
      file = next
    },
    /** As another process would have it noticed. */
    announce: (workspace: OrganizationId) => PubSub.publish(changes, { workspace, paths: [] })
  }
}
