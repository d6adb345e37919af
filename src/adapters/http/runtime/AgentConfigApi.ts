import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ConfigError, ConfigWarning } from "../../../domain/agent/ConfigIssue.ts"
import { SessionId } from "../../../domain/conversation/Session.ts"
import { RefusesBy } from "./envelopes/Envelope.ts"
import { issuesError, refuseByIssues } from "./envelopes/IssuesEnvelope.ts"
import { messageError } from "./envelopes/MessageEnvelope.ts"

const ErrorWire = ConfigError.annotate({ identifier: "ConfigError" })

const WarningWire = ConfigWarning.annotate({ identifier: "ConfigWarning" })

const absolutePath = Schema.String.annotate({ description: "Absolute, also where the files are kept in a database." })

const relativePath = Schema.String.annotate({ description: "Below the workspace." })

const Yaml = Schema.Struct({
  yaml: Schema.String.pipe(Schema.annotateKey({ description: "The whole document, at most 64 KB." }))
})

const noAgent = messageError(404, "No agent is active.")

/** The current agent's configuration (section 4.2). */
export const AgentConfigApi = HttpApiGroup.make("agentConfig").add(
  HttpApiEndpoint.get("getAgentConfigPath", "/api/agent/path", {
    success: Schema.Struct({
      path: absolutePath,
      relativePath,
      name: Schema.String.annotate({ description: "The file's name without its ending." }),
      isDefault: Schema.Boolean.annotate({ description: "Whether it is the agent that a new workspace has." })
    }),
    error: [noAgent]
  }).annotateMerge(
    OpenApi.annotations({ identifier: "getAgentConfigPath", summary: "where the configuration of the agent is" })
  ),
  HttpApiEndpoint.get("getAgentConfig", "/api/agent/config", {
    success: Schema.Struct({
      yaml: Schema.String.annotate({ description: "The file as it is written, its variables not expanded." }),
      path: absolutePath,
      relativePath,
      lastModified: Schema.String.annotate({ format: "date-time" }),
      warnings: Schema.Array(WarningWire)
    }),
    error: [noAgent]
  }).annotateMerge(
    OpenApi.annotations({ identifier: "getAgentConfig", summary: "the configuration file of the agent" })
  ),
  HttpApiEndpoint.post("saveAgentConfig", "/api/agent/config", {
    payload: Yaml,
    success: Schema.Struct({
      ok: Schema.Literal(true),
      path: absolutePath,
      reloaded: Schema.Boolean.annotate({
        description: "Whether the running agent follows another configuration now."
      }),
      restarted: Schema.Boolean.annotate({ description: "Whether it had to be started anew for that." }),
      changesApplied: Schema.Array(Schema.String).annotate({ description: "The top-level keys whose values changed." }),
      message: Schema.String
    }),
    error: [
      issuesError(
        400,
        "The body is wrong (schema_validation), or the configuration has mistakes or the agent cannot be started with it " +
          "(agent_invalid_config; `context` tells line, column and the code of POST /api/agent/validate). The file is " +
          "as it was."
      ),
      issuesError(404, "No agent is active (agent_not_found)."),
      issuesError(409, "Somebody else changed the file at the same time (workspace_conflict). It is as they left it."),
      issuesError(413, "The body is larger than 1 MiB.")
    ]
  })
    .annotate(RefusesBy, refuseByIssues)
    .annotateMerge(
      OpenApi.annotations({
        identifier: "saveAgentConfig",
        summary: "save the configuration of the agent",
        description: "The file before is kept in backups/, the ten newest of each agent."
      })
    ),
  HttpApiEndpoint.post("validateAgentConfig", "/api/agent/validate", {
    payload: Yaml,
    success: Schema.Struct({
      valid: Schema.Boolean,
      errors: Schema.Array(ErrorWire).annotate({ description: "The first fifty." }),
      warnings: Schema.Array(WarningWire).annotate({ description: "The first fifty." })
    }),
    error: [messageError(400, "The body is wrong."), messageError(413, "The body is larger than 1 MiB.")]
  }).annotateMerge(
    OpenApi.annotations({
      identifier: "validateAgentConfig",
      summary: "judge a configuration",
      description: "Nothing is written."
    })
  ),
  HttpApiEndpoint.get("exportAgentConfig", "/api/agent/config/export", {
    query: {
      sessionId: Schema.optionalKey(
        SessionId.pipe(
          Schema.annotateKey({
            description: "As it is for this session, with its own choice of a model if it has one."
          })
        )
      )
    },
    success: Schema.String.pipe(HttpApiSchema.asText({ contentType: "application/x-yaml" })),
    error: [messageError(400, "The query is wrong, or the file has mistakes."), noAgent]
  }).annotateMerge(
    OpenApi.annotations({
      identifier: "exportAgentConfig",
      summary: "the configuration in force",
      description: "Variables resolved, defaults in place, secrets replaced by [REDACTED]."
    })
  )
)
