import { Effect, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import type { ListedProvider } from "../../../application/llm/LlmCatalog.ts"
import { LlmCatalog } from "../../../application/llm/LlmCatalog.ts"
import { LlmConfigs } from "../../../application/llm/LlmConfigs.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { issuesEnvelope } from "./envelopes/IssuesEnvelope.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import type { ProviderWire } from "./LlmApi.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const LlmHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "llm",
  Effect.fnUntraced(function* (handlers) {
    const configs = yield* LlmConfigs
    const catalog = yield* LlmCatalog

    return handlers
      .handle("currentLlm", ({ query }) =>
        Effect.gen(function* () {
          const { id } = yield* CurrentWorkspace
          return { config: yield* configs.current(id, query.sessionId) }
        }).pipe(Effect.catchTags({ NoCurrentAgent: noAgent, AgentFileInvalid: cannotRun }))
      )
      .handle("listLlms", ({ query: { defaultOnly, fileType, hasKey, mode, provider, router } }) =>
        Effect.gen(function* () {
          const { id } = yield* CurrentWorkspace
          const listed = yield* catalog.list(id, {
            providers: provider === undefined ? undefined : idsOf(provider),
            hasKey: flagOf(hasKey),
            router,
            fileType,
            defaultOnly: flagOf(defaultOnly)
          })
          return mode === "flat"
            ? { models: listed.flatMap(flattened) }
            : { providers: Object.fromEntries(listed.map((each) => [each.id, toWire(each)])) }
        })
      )
      .handle("saveLlmKey", ({ payload: { apiKey, provider } }) =>
        Effect.gen(function* () {
          const { id } = yield* CurrentWorkspace
          return { ok: true as const, ...(yield* configs.saveKey(id, provider, Redacted.make(apiKey))) }
        }).pipe(
          Effect.catchTags({
            UnknownProvider: ({ known, message, provider: unknown }) =>
              Effect.succeed(
                issuesEnvelope(400, [
                  {
                    code: "unknown_provider",
                    message,
                    severity: "error",
                    path: ["provider"],
                    context: { provider: unknown, known }
                  }
                ])
              ),
            InvalidProviderKey: keyIssue,
            InvalidVariable: keyIssue,
            SecretsUnavailable: noSecrets
          })
        )
      )
      .handle("switchLlm", ({ payload: { apiKey, sessionId, ...request } }) =>
        Effect.gen(function* () {
          const { id } = yield* CurrentWorkspace
          const wanted = apiKey === undefined ? request : { ...request, apiKey: Redacted.make(apiKey) }
          const { issues, ...data } = yield* configs.switch(id, wanted, sessionId)
          return { ok: true as const, data, issues }
        }).pipe(
          Effect.catchTags({
            LlmNotUsable: ({ issues }) => Effect.succeed(issuesEnvelope(400, issues)),
            NoCurrentAgent: noAgent,
            AgentFileInvalid: cannotRun,
            AgentNotStarted: cannotRun,
            WorkspaceConflict: conflict,
            InvalidProviderKey: keyIssue,
            InvalidVariable: keyIssue,
            SecretsUnavailable: noSecrets
          })
        )
      )
  })
)

const issue =
  (status: number, code: string, path: ReadonlyArray<string>) =>
  ({ message }: { readonly message: string }) =>
    Effect.succeed(issuesEnvelope(status, [{ code, message, severity: "error", path }]))

const noAgent = issue(404, "agent_not_found", [])

const cannotRun = issue(400, "agent_invalid_config", [])

const conflict = issue(409, "workspace_conflict", [])

const keyIssue = issue(400, "schema_validation", ["apiKey"])

/** The operator's affair, so in the words that the operator needs. */
const noSecrets = ({ message }: { readonly message: string }) => Effect.succeed(messageEnvelope(503, message))

const idsOf = (text: string): ReadonlyArray<string> =>
  text
    .split(",")
    .map((id) => id.trim())
    .filter((id) => id !== "")

const flagOf = (flag: "true" | "false" | undefined): boolean | undefined =>
  flag === undefined ? undefined : flag === "true"

const toWire = ({ hasKey, keyVariable, models, name, routers, takesBaseURL }: ListedProvider): ProviderWire => ({
  name,
  hasApiKey: hasKey,
  primaryEnvVar: keyVariable ?? "",
  supportedRouters: routers,
  supportsBaseURL: takesBaseURL,
  models: models.map(modelToWire)
})

const modelToWire = (model: ListedProvider["models"][number]) => ({
  name: model.name,
  displayName: model.displayName,
  default: model.isDefault,
  maxInputTokens: model.maxInputTokens,
  supportedFileTypes: model.fileTypes
})

const flattened = ({ id, models, routers }: ListedProvider) =>
  models.map((model) => ({ ...modelToWire(model), provider: id, supportedRouters: routers }))
