import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Router } from "../../../domain/agent/AgentConfig.ts"
import { SessionId } from "../../../domain/conversation/Session.ts"
import { ProviderKeyText } from "../../../domain/identity/ProviderKey.ts"
import { FileType } from "../../../domain/llm/Provider.ts"
import { BodyLimit, RefusesBy } from "./envelopes/Envelope.ts"
import { issuesError, IssueWire, refuseByIssues } from "./envelopes/IssuesEnvelope.ts"
import { messageError } from "./envelopes/MessageEnvelope.ts"

const Flag = Schema.Literals(["true", "false"])

const ModelWire = Schema.Struct({
  name: Schema.String,
  displayName: Schema.String,
  default: Schema.Boolean,
  maxInputTokens: Schema.Int,
  supportedFileTypes: Schema.Array(FileType)
})

/** Section 2.11. */
export const ProviderWire = Schema.Struct({
  name: Schema.String,
  hasApiKey: Schema.Boolean,
  /** Empty: it takes no key. */
  primaryEnvVar: Schema.String,
  supportedRouters: Schema.Array(Router),
  supportsBaseURL: Schema.Boolean,
  models: Schema.Array(ModelWire)
}).annotate({ identifier: "LlmProvider" })
export type ProviderWire = typeof ProviderWire.Type

const FlatModelWire = Schema.Struct({
  ...ModelWire.fields,
  provider: Schema.String,
  supportedRouters: Schema.Array(Router)
}).annotate({ identifier: "LlmModel" })

const keyRule = { message: "Expected 1 to 4096 visible ASCII characters without spaces" }

/** The rule is told without the value: it is a secret, even a wrong one. */
const KeyText = Schema.String.annotate(keyRule).check(
  Schema.makeFilter((text) => Schema.is(ProviderKeyText)(text), keyRule)
)

const Name = Schema.NonEmptyString.check(Schema.isMaxLength(200))

const SwitchRequest = Schema.Struct({
  provider: Schema.optionalKey(Name),
  model: Schema.optionalKey(Name),
  router: Schema.optionalKey(Router),
  apiKey: Schema.optionalKey(KeyText),
  baseURL: Schema.optionalKey(Schema.NonEmptyString.check(Schema.isMaxLength(2_000))),
  maxInputTokens: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThan(0))),
  sessionId: Schema.optionalKey(SessionId)
}).check(
  Schema.makeFilter(
    ({ sessionId: _sessionId, ...choice }) =>
      Object.keys(choice).length > 0 ||
      "Expected at least one of provider, model, router, apiKey, baseURL, maxInputTokens"
  )
)

const noAgent = issuesError(404, "No agent is active (agent_not_found).")
const conflict = issuesError(
  409,
  "Somebody else changed the file at the same time (workspace_conflict). It is as they left it."
)
const noSecrets = messageError(503, "This server stores no keys, since it has no SECRETS_KEY.")

/** Which model answers (section 4.6). */
export const LlmApi = HttpApiGroup.make("llm")
  .add(
    HttpApiEndpoint.get("currentLlm", "/api/llm/current", {
      query: {
        sessionId: Schema.optionalKey(SessionId.annotate({ description: "For a session with its own choice." }))
      },
      success: Schema.Struct({
        config: Schema.Struct({ provider: Schema.String, model: Schema.String, displayName: Schema.String })
      }),
      error: [issuesError(400, "The query, or the file of the current agent, has mistakes."), noAgent]
    }).annotateMerge(OpenApi.annotations({ identifier: "currentLlm", summary: "current LLM configuration" })),
    HttpApiEndpoint.get("listLlms", "/api/llm/catalog", {
      query: {
        provider: Schema.optionalKey(Schema.String.annotate({ description: "Ids, divided by commas." })),
        hasKey: Schema.optionalKey(Flag),
        router: Schema.optionalKey(Router),
        fileType: Schema.optionalKey(Schema.Literals(["audio", "pdf"])),
        defaultOnly: Schema.optionalKey(Flag),
        mode: Schema.optionalKey(Schema.Literals(["grouped", "flat"]))
      },
      success: Schema.Union([
        Schema.Struct({ providers: Schema.Record(Schema.String, ProviderWire) }),
        Schema.Struct({ models: Schema.Array(FlatModelWire) })
      ]),
      error: [issuesError(400, "The query has mistakes.")]
    }).annotateMerge(OpenApi.annotations({ identifier: "listLlms", summary: "catalog of providers and models" })),
    HttpApiEndpoint.post("saveLlmKey", "/api/llm/key", {
      payload: Schema.Struct({ provider: Name, apiKey: KeyText }),
      success: Schema.Struct({ ok: Schema.Literal(true), provider: Schema.String, envVar: Schema.String }),
      error: [
        issuesError(400, "No such provider takes a key, or this is no key."),
        issuesError(413, "The body is larger than 4 KB."),
        noSecrets
      ]
    })
      .annotateMerge(OpenApi.annotations({ identifier: "saveLlmKey", summary: "save a provider's API key" }))
      .annotate(BodyLimit, 4 * 1024),
    HttpApiEndpoint.post("switchLlm", "/api/llm/switch", {
      payload: SwitchRequest,
      success: Schema.Struct({
        ok: Schema.Literal(true),
        data: Schema.Struct({ provider: Schema.String, model: Schema.String, router: Router }),
        issues: Schema.Array(IssueWire)
      }),
      error: [
        issuesError(
          400,
          "Everything that is wrong with the choice at once; or the file of the current agent has mistakes, or the agent " +
            "cannot be started with the choice (agent_invalid_config). Nothing was changed."
        ),
        noAgent,
        conflict,
        issuesError(413, "The body is larger than 1 MiB."),
        noSecrets
      ]
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "switchLlm",
        summary: "switch provider, model, router, key or limits",
        description:
          "At least one field besides sessionId. Another provider without a model: its default model. With sessionId the " +
          "choice is of that session only, else the file of the current agent is changed."
      })
    )
  )
  .annotate(RefusesBy, refuseByIssues)
