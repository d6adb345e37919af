import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { AgentConfigs, type ConfigSaved } from "../../../application/agent/AgentConfigs.ts"
import type { NoCurrentAgent } from "../../../application/agent/CurrentAgent.ts"
import type { AgentFileInvalid, AgentNotStarted } from "../../../domain/agent/AgentErrors.ts"
import type { WorkspaceConflict } from "../../../domain/workspace/WorkspaceErrors.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { issuesEnvelope } from "./envelopes/IssuesEnvelope.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const AgentConfigHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "agentConfig",
  Effect.fnUntraced(function* (handlers) {
    const configs = yield* AgentConfigs

    return handlers
      .handle(
        "getAgentConfigPath",
        Effect.fnUntraced(
          function* () {
            return yield* configs.path((yield* CurrentWorkspace).id)
          },
          Effect.catchTags({ NoCurrentAgent: noAgent })
        )
      )
      .handle(
        "getAgentConfig",
        Effect.fnUntraced(
          function* () {
            const { lastModified, ...record } = yield* configs.config((yield* CurrentWorkspace).id)
            return { ...record, lastModified: iso(lastModified) }
          },
          Effect.catchTags({ NoCurrentAgent: noAgent })
        )
      )
      .handle(
        "saveAgentConfig",
        Effect.fnUntraced(
          function* ({ payload: { yaml } }) {
            const saved = yield* configs.save((yield* CurrentWorkspace).id, yaml)
            return { ok: true as const, ...saved, message: messageOf(saved) }
          },
          Effect.catchTags({
            AgentFileInvalid: notSaved,
            AgentNotStarted: notStarted,
            NoCurrentAgent: nothingToSave,
            WorkspaceConflict: conflict
          })
        )
      )
      .handle("validateAgentConfig", ({ payload: { yaml } }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => configs.validate(id, yaml))
      )
      .handle(
        "exportAgentConfig",
        Effect.fnUntraced(
          function* ({ query: { sessionId } }) {
            return yield* configs.export((yield* CurrentWorkspace).id, sessionId)
          },
          Effect.catchTags({ AgentFileInvalid: notExported, NoCurrentAgent: noAgent })
        )
      )
  })
)

const iso = (millis: number): string => new Date(millis).toISOString()

const messageOf = ({ changesApplied, restarted }: ConfigSaved): string =>
  changesApplied.length === 0
    ? "The configuration is saved. It says the same as before."
    : `The configuration is saved and ${restarted ? "the agent was restarted" : "in force"}: ${changesApplied.join(", ")} changed.`

const noAgent = ({ message }: NoCurrentAgent) => Effect.succeed(messageEnvelope(404, message))

const notExported = ({ message }: AgentFileInvalid) => Effect.succeed(messageEnvelope(400, message))

/** Every mistake with its place in the document. */
const notSaved = ({ errors }: AgentFileInvalid) =>
  Effect.succeed(
    issuesEnvelope(
      400,
      errors.map(({ code, column, line, message, path }) => ({
        code: "agent_invalid_config",
        message: `Line ${line}, column ${column}: ${path === "" ? message : `${path}: ${message}`}`,
        severity: "error",
        path: path.split(/[.[\]]+/).filter((key) => key !== ""),
        context: { code, line, column, path }
      }))
    )
  )

const notStarted = ({ message }: AgentNotStarted) =>
  Effect.succeed(issuesEnvelope(400, [{ code: "agent_invalid_config", message, severity: "error", path: [] }]))

const nothingToSave = ({ message }: NoCurrentAgent) =>
  Effect.succeed(issuesEnvelope(404, [{ code: "agent_not_found", message, severity: "error", path: [] }]))

const conflict = ({ message }: WorkspaceConflict) =>
  Effect.succeed(issuesEnvelope(409, [{ code: "workspace_conflict", message, severity: "error", path: [] }]))
