import { Array, Context, Effect, Layer, Redacted, Schema } from "effect"
import type { AgentDocument, Router } from "../../domain/agent/AgentConfig.ts"
import { AgentFileInvalid, type AgentNotStarted } from "../../domain/agent/AgentErrors.ts"
import type { SessionId } from "../../domain/conversation/Session.ts"
import { InvalidProviderKey } from "../../domain/identity/IdentityErrors.ts"
import { ProviderKeyText } from "../../domain/identity/ProviderKey.ts"
import {
  type Llm,
  type LlmOverride,
  type LlmRequest,
  originOf,
  storedIn,
  type Variables
} from "../../domain/llm/Llm.ts"
import { type LlmIssue, LlmNotUsable, UnknownProvider } from "../../domain/llm/LlmIssue.ts"
import { bindings, judge, type LlmChoice } from "../../domain/llm/LlmSwitch.ts"
import { displayNameOf, type Provider } from "../../domain/llm/Provider.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import type { WorkspaceConflict } from "../../domain/workspace/WorkspaceErrors.ts"
import { AgentConfigs } from "../agent/AgentConfigs.ts"
import { CurrentAgent, type NoCurrentAgent } from "../agent/CurrentAgent.ts"
import { Environment, type InvalidVariable } from "../agent/Environment.ts"
import { AgentYaml, type YamlEdit } from "../ports/files/AgentYaml.ts"
import { Egress } from "../ports/runtime/Egress.ts"
import type { SecretsUnavailable } from "../ports/runtime/Secrets.ts"
import { SessionLlms } from "../ports/storage/SessionLlms.ts"
import { EffectiveLlm } from "./EffectiveLlm.ts"
import { LlmCatalog, plain } from "./LlmCatalog.ts"

/** Which model answers (section 4.6): the current agent's, or a session's own. */
export class LlmConfigs extends Context.Service<
  LlmConfigs,
  {
    readonly current: (
      workspace: OrganizationId,
      session: SessionId | undefined
    ) => Effect.Effect<CurrentLlm, NoCurrentAgent | AgentFileInvalid>
    /** Saves a provider's key in the workspace's `.env`, in place of an earlier one. It holds at once. */
    readonly saveKey: (
      workspace: OrganizationId,
      provider: string,
      apiKey: Redacted.Redacted
    ) => Effect.Effect<
      { readonly provider: string; readonly envVar: string },
      UnknownProvider | InvalidProviderKey | InvalidVariable | SecretsUnavailable
    >
    /**
     * Switches the current agent, whose file is written, or with a session only that. A key is saved in `.env` and the
     * file refers to it. Fails with all that is wrong with the request at once, and then nothing has changed.
     */
    readonly switch: (
      workspace: OrganizationId,
      request: LlmRequest,
      session: SessionId | undefined
    ) => Effect.Effect<
      SwitchedLlm,
      | LlmNotUsable
      | NoCurrentAgent
      | AgentFileInvalid
      | AgentNotStarted
      | WorkspaceConflict
      | InvalidProviderKey
      | InvalidVariable
      | SecretsUnavailable
    >
  }
>()("gateway/llm/LlmConfigs") {
  static readonly layer = Layer.effect(
    LlmConfigs,
    Effect.gen(function* () {
      const agents = yield* CurrentAgent
      const configs = yield* AgentConfigs
      const yaml = yield* AgentYaml
      const environment = yield* Environment
      const catalog = yield* LlmCatalog
      const effective = yield* EffectiveLlm
      const sessions = yield* SessionLlms
      const egress = yield* Egress

      /** The current agent as its file has it. */
      const agent = Effect.fnUntraced(function* (workspace: OrganizationId) {
        const file = yield* agents.file(workspace)
        const variables = plain(yield* environment.variables(workspace))
        const { errors, valid } = yaml.read(file.text, variables)
        if (valid !== undefined) return { file, variables, document: valid.document, llm: valid.config.llm }
        if (Array.isReadonlyArrayNonEmpty(errors)) return yield* new AgentFileInvalid({ file: file.path, errors })
        return yield* Effect.die(new Error(`${file.path} has no errors and is not valid`))
      })

      const current = Effect.fn("LlmConfigs.current")(function* (
        workspace: OrganizationId,
        session: SessionId | undefined
      ) {
        const { llm } = yield* agent(workspace)
        const { model, provider } = yield* effective.of(workspace, llm, session)
        const known = (yield* catalog.providers(workspace)).find(({ id }) => id === provider)
        return { provider, model, displayName: displayNameOf(known, model) }
      })

      const saveKey = Effect.fn("LlmConfigs.saveKey")(function* (
        workspace: OrganizationId,
        provider: string,
        apiKey: Redacted.Redacted
      ) {
        const providers = (yield* catalog.providers(workspace)).filter(({ keyVariable }) => keyVariable !== undefined)
        const keyVariable = providers.find(({ id }) => id === provider)?.keyVariable
        if (keyVariable === undefined) {
          return yield* new UnknownProvider({ provider, known: providers.map(({ id }) => id) })
        }
        if (!isKeyText(Redacted.value(apiKey))) return yield* new InvalidProviderKey()
        yield* environment.set(workspace, new Map([[keyVariable, apiKey]]))
        return { provider, envVar: keyVariable }
      })

      /** An address that the service does not call is one more issue. */
      const forbidden = Effect.fnUntraced(function* (baseURL: string | undefined, issues: ReadonlyArray<LlmIssue>) {
        if (baseURL === undefined || originOf(baseURL) === undefined) return []
        if (issues.some(({ path }) => path.includes("baseURL"))) return []
        return yield* egress.check(baseURL).pipe(
          Effect.as(Array.empty<LlmIssue>()),
          Effect.catchTag("ForbiddenAddress", ({ host, message }) =>
            Effect.succeed([
              { code: "base_url_not_supported", message, severity: "error", path: ["baseURL"], context: { host } }
            ] satisfies ReadonlyArray<LlmIssue>)
          )
        )
      })

      /** Puts the old values back when what they were set for fails. */
      const withVariables = <A, E, R>(
        workspace: OrganizationId,
        values: ReadonlyMap<string, Redacted.Redacted>,
        use: Effect.Effect<A, E, R>
      ) =>
        Effect.gen(function* () {
          if (values.size === 0) return yield* use
          const before = yield* environment.variables(workspace)
          const undone = new Map([...values.keys()].map((name) => [name, before.get(name) ?? null]))
          yield* environment.set(workspace, values)
          return yield* Effect.onError(use, () => Effect.ignore(environment.set(workspace, undone), { log: "Warn" }))
        })

      const change = Effect.fn("LlmConfigs.switch")(function* (
        workspace: OrganizationId,
        request: LlmRequest,
        session: SessionId | undefined
      ) {
        if (request.apiKey !== undefined && !isKeyText(Redacted.value(request.apiKey))) {
          return yield* new InvalidProviderKey()
        }
        const { document, file, llm, variables } = yield* agent(workspace)
        const inForce = yield* effective.of(workspace, llm, session)
        const providers = yield* catalog.providers(workspace)
        const { choice, issues: judged } = judge(request, inForce, providers, variables)
        const issues = [...judged, ...(yield* forbidden(choice?.baseURL ?? request.baseURL, judged))]
        const errors: ReadonlyArray<LlmIssue> = issues.filter(({ severity }) => severity === "error")
        if (Array.isReadonlyArrayNonEmpty(errors)) return yield* new LlmNotUsable({ issues: errors })
        if (choice === undefined) return yield* Effect.die(new Error("no choice, and no issue that says why"))

        const values = new Map(
          [...bindings(choice, inForce, providers, variables)].map(([name, value]) => [name, Redacted.make(value)])
        )
        const { keyVariable } = choice.provider
        if (choice.key === "given" && keyVariable !== undefined && request.apiKey !== undefined) {
          values.set(keyVariable, request.apiKey)
        }
        const use =
          session !== undefined
            ? sessions.put(workspace, session, overrideOf(choice, inForce, variables))
            : configs.edit(workspace, editsFor(choice, inForce, document), file.version)
        yield* withVariables(workspace, values, use)
        return { provider: choice.provider.id, model: choice.model, router: choice.router, issues }
      })

      return LlmConfigs.of({ current, saveKey, switch: change })
    })
  )
}

export interface CurrentLlm {
  readonly provider: string
  readonly model: string
  readonly displayName: string
}

export interface SwitchedLlm {
  readonly provider: string
  readonly model: string
  readonly router: Router
  /** Warnings. */
  readonly issues: ReadonlyArray<LlmIssue>
}

const isKeyText = Schema.is(ProviderKeyText)

/** What the agent's file has to say for the choice: only what is not so already, as the user wrote it or by default. */
const editsFor = (choice: LlmChoice, inForce: Llm, { llm: written }: AgentDocument): ReadonlyArray<YamlEdit> => {
  const { baseURL, key, maxInputTokens, model, provider, router } = choice
  const edit = (field: keyof typeof written, value: string | number | undefined, before: unknown) =>
    value === before || (value === undefined && written[field] === undefined) ? [] : [{ path: ["llm", field], value }]
  return [
    ...edit("provider", provider.id, inForce.provider),
    ...edit("model", model, inForce.model),
    ...edit("router", router, inForce.router),
    ...keyEdits(key, choice.provider, inForce, written.apiKey),
    ...edit("baseURL", baseURL, inForce.baseURL),
    ...edit("maxInputTokens", maxInputTokens, inForce.maxInputTokens)
  ]
}

/** A stored key stands there by its variable; the key of another provider must not stay. */
const keyEdits = (
  key: LlmChoice["key"],
  { id, keyVariable }: Provider,
  inForce: Llm,
  written: string | undefined
): ReadonlyArray<YamlEdit> => {
  const path = ["llm", "apiKey"]
  switch (key) {
    case "kept":
      return []
    case "none":
      return id === inForce.provider || written === undefined ? [] : [{ path, value: undefined }]
    case "given":
    case "stored":
      return written === `$${keyVariable}` || written === `\${${keyVariable}}`
        ? []
        : [{ path, value: `$${keyVariable}` }]
  }
}

const overrideOf = (choice: LlmChoice, inForce: Llm, variables: Variables): LlmOverride => {
  const keyVariable = choice.provider.keyVariable ?? null
  const isStored =
    choice.key === "kept" ? inForce.apiKey === storedIn(variables, keyVariable ?? undefined) : choice.key !== "none"
  return {
    provider: choice.provider.id,
    model: choice.model,
    router: choice.router,
    baseURL: choice.baseURL ?? null,
    maxInputTokens: choice.maxInputTokens ?? null,
    keyVariable: isStored ? keyVariable : null
  }
}
