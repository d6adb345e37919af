import { Effect } from "effect"
import type { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Agents, type AgentToInstall } from "../../../application/agent/Agents.ts"
import type { SourceNotFound, SourceTooLarge } from "../../../application/ports/files/AgentSources.ts"
import type {
  AgentFileInvalid,
  AgentNotStarted,
  AgentRefused,
  UnknownAgent
} from "../../../domain/agent/AgentErrors.ts"
import type { WorkspaceConflict } from "../../../domain/workspace/WorkspaceErrors.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { issuesEnvelope } from "./envelopes/IssuesEnvelope.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const AgentsHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "agents",
  Effect.fnUntraced(function* (handlers) {
    const agents = yield* Agents

    return handlers
      .handle("listAgents", () => Effect.flatMap(CurrentWorkspace, ({ id }) => agents.list(id)))
      .handle("getCurrentAgent", () => Effect.flatMap(CurrentWorkspace, ({ id }) => agents.current(id)))
      .handle(
        "installAgent",
        Effect.fnUntraced(
          function* ({ payload: { id, injectPreferences = true, metadata, name = "", sourcePath } }) {
            const custom: AgentToInstall["custom"] =
              sourcePath === undefined || metadata === undefined
                ? undefined
                : {
                    name: name.trim() === "" ? undefined : name.trim(),
                    sourcePath,
                    description: metadata.description,
                    author: metadata.author,
                    tags: metadata.tags ?? [],
                    main: metadata.main
                  }
            const workspace = (yield* CurrentWorkspace).id
            const installed = yield* agents.install(workspace, {
              id,
              injectPreferences,
              ...(custom === undefined ? {} : { custom })
            })
            return { installed: true as const, id, name: installed.name, type: installed.type }
          },
          Effect.catchTags({
            AgentFileInvalid: fileInvalid,
            AgentRefused: refused,
            SourceNotFound: sourceRefused("sourcePath"),
            SourceTooLarge: sourceRefused("sourcePath"),
            UnknownAgent: unknown,
            WorkspaceConflict: conflict
          })
        )
      )
      .handle(
        "switchAgent",
        Effect.fnUntraced(
          function* ({ payload: { id, path } }) {
            const workspace = (yield* CurrentWorkspace).id
            return { switched: true as const, ...(yield* agents.switchTo(workspace, { id, path })) }
          },
          Effect.catchTags({
            AgentFileInvalid: fileInvalid,
            AgentNotStarted: notStarted,
            AgentRefused: refused,
            SourceNotFound: sourceRefused("path"),
            SourceTooLarge: sourceRefused("path"),
            UnknownAgent: unknown,
            WorkspaceConflict: conflict
          })
        )
      )
      .handle("validateAgentName", ({ payload }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => agents.validateName(id, payload.id))
      )
      .handle(
        "uninstallAgent",
        Effect.fnUntraced(
          function* ({ payload: { force = false, id } }) {
            yield* agents.uninstall((yield* CurrentWorkspace).id, { id, force })
            return { uninstalled: true as const, id }
          },
          Effect.catchTags({
            AgentFileInvalid: fileInvalid,
            AgentNotStarted: notStarted,
            AgentRefused: refused,
            UnknownAgent: unknown,
            WorkspaceConflict: conflict
          })
        )
      )
      .handle(
        "createCustomAgent",
        Effect.fnUntraced(
          function* ({ payload: { author = "", llm, tags = [], ...given } }) {
            const workspace = (yield* CurrentWorkspace).id
            const { id, name } = yield* agents.create(workspace, {
              ...given,
              author: author.trim() === "" ? anonymous : author,
              tags,
              llm: { provider: llm.provider, model: llm.model, apiKey: llm.apiKey }
            })
            return { created: true as const, id, name }
          },
          Effect.catchTags({ AgentFileInvalid: fileInvalid, AgentRefused: refused, WorkspaceConflict: conflict })
        )
      )
  })
)

/** Who made an agent whose author is not told. */
const anonymous = "Custom"

const answered = (
  status: number,
  code: string,
  path: ReadonlyArray<string>,
  message: string
): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
  Effect.succeed(issuesEnvelope(status, [{ code, message, severity: "error", path }]))

const refused = ({ code, message, path }: AgentRefused) => answered(400, code, path, message)

const notStarted = ({ message }: AgentNotStarted) => answered(400, "agent_invalid_config", ["id"], message)

const unknown = ({ message }: UnknownAgent) => answered(404, "agent_not_found", ["id"], message)

const conflict = ({ message }: WorkspaceConflict) => answered(409, "workspace_conflict", [], message)

const sourceRefused =
  (field: string) =>
  ({ message }: SourceNotFound | SourceTooLarge) =>
    answered(400, "agent_validation_error", [field], message)

/** Every mistake of the file with its place there. */
const fileInvalid = ({ errors, file }: AgentFileInvalid) =>
  Effect.succeed(
    issuesEnvelope(
      400,
      errors.map(({ code, column, line, message, path }) => ({
        code: "agent_invalid_config",
        message: `${file}, line ${line}: ${path === "" ? message : `${path}: ${message}`}`,
        severity: "error",
        path: path.split(/[.[\]]+/).filter((key) => key !== ""),
        context: { code, line, column, path }
      }))
    )
  )
