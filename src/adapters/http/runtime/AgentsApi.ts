import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Agent, AgentId, AgentType } from "../../../domain/agent/Agent.ts"
import { RefusesBy } from "./envelopes/Envelope.ts"
import { issuesError, refuseByIssues } from "./envelopes/IssuesEnvelope.ts"

const text = (longest: number) => Schema.String.check(Schema.isMaxLength(longest))

const required = (longest: number) => Schema.NonEmptyString.check(Schema.isMaxLength(longest))

const oneLine = Schema.isPattern(/^[^\r\n\u2028\u2029]*$/, { expected: "one line" })

const Tags = Schema.Array(required(100)).check(Schema.isMaxLength(50))

const CurrentWire = Schema.Struct({ id: Schema.NullOr(Schema.String), name: Schema.NullOr(Schema.String) }).annotate({
  identifier: "CurrentAgent"
})

const AgentWire = Agent.annotate({ identifier: "Agent" })

/** An agent of the registry by its id alone; an own one with where it is and what it is (section 4.3). */
const InstallWire = Schema.Struct({
  id: AgentId,
  name: Schema.optionalKey(
    text(200).pipe(Schema.annotateKey({ description: "Of a custom agent. By default derived: my-agent is My Agent." }))
  ),
  sourcePath: Schema.optionalKey(
    required(4096).pipe(
      Schema.annotateKey({
        description:
          "The absolute path of a configuration file or of a directory that has one, in the workspace or in a " +
          "directory of AGENT_SOURCE_ROOTS. With it the agent is a custom one. At most 200 files, 1 MB each, 8 MB " +
          "together; hidden files stay behind."
      })
    )
  ),
  metadata: Schema.optionalKey(
    Schema.Struct({
      description: required(2_000),
      author: required(200),
      tags: Schema.optionalKey(Tags),
      main: Schema.optionalKey(
        required(1_000).pipe(Schema.annotateKey({ description: "The configuration file in the directory." }))
      )
    })
  ),
  injectPreferences: Schema.optionalKey(
    Schema.Boolean.pipe(
      Schema.annotateKey({
        description:
          "By default true: provider, model and key variable of the workspace's preferences.yml replace the agent's own."
      })
    )
  )
}).check(
  Schema.makeFilter(({ id, metadata, sourcePath }) =>
    sourcePath !== undefined && /\d/.test(id)
      ? { path: ["id"], issue: "Expected lowercase letters and hyphens only, as it is a custom agent." }
      : sourcePath !== undefined && metadata === undefined
        ? { path: ["metadata"], issue: "Required for a custom agent." }
        : sourcePath === undefined && metadata !== undefined
          ? { path: ["sourcePath"], issue: "Required for a custom agent." }
          : undefined
  )
)

const CreateWire = Schema.Struct({
  id: AgentId,
  name: required(200).check(oneLine),
  description: required(2_000).check(oneLine),
  author: Schema.optionalKey(text(200)),
  tags: Schema.optionalKey(Tags),
  llm: Schema.Struct({
    provider: required(200),
    model: required(200),
    apiKey: Schema.optionalKey(
      Schema.RedactedFromValue(Schema.String).pipe(
        Schema.annotateKey({
          description:
            "A variable of .env such as $OPENAI_API_KEY, or a key, which is stored in .env and named in the file by its " +
            "variable. By default the provider's usual variable."
        })
      )
    )
  }),
  systemPrompt: Schema.NonEmptyString
})

const conflict = issuesError(409, "Another operation changed the agents at the same time. Nothing was done.")

const unknown = issuesError(404, "No such agent (code agent_not_found).")

const refused = issuesError(
  400,
  "A field is wrong (schema_validation), the operation is not possible (agent_validation_error), or the agent's " +
    "configuration has mistakes or does not start (agent_invalid_config). Nothing was done."
)

/** Agents (section 4.3). */
export const AgentsApi = HttpApiGroup.make("agents")
  .add(
    HttpApiEndpoint.get("listAgents", "/api/agents", {
      success: Schema.Struct({
        installed: Schema.Array(AgentWire),
        available: Schema.Array(AgentWire),
        current: CurrentWire
      })
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "listAgents",
        summary: "list agents",
        description: "`available` are those that come with the service and are not installed."
      })
    ),
    HttpApiEndpoint.get("getCurrentAgent", "/api/agents/current", { success: CurrentWire }).annotateMerge(
      OpenApi.annotations({
        identifier: "getCurrentAgent",
        summary: "current agent",
        description: "Both null when no agent is active."
      })
    ),
    HttpApiEndpoint.post("installAgent", "/api/agents/install", {
      payload: InstallWire,
      success: Schema.Struct({
        installed: Schema.Literal(true),
        id: Schema.String,
        name: Schema.String,
        type: AgentType
      }).pipe(HttpApiSchema.status(201)),
      error: [refused, unknown, conflict]
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "installAgent",
        summary: "install an agent",
        description:
          "One that comes with the service by its id, or an own one from a file or directory. It does not become " +
          "current. An agent that is installed already is a 400."
      })
    ),
    HttpApiEndpoint.post("switchAgent", "/api/agents/switch", {
      payload: Schema.Struct({
        id: AgentId,
        path: Schema.optionalKey(
          required(4096).pipe(
            Schema.annotateKey({
              description:
                "The absolute path of a configuration file in the workspace or, then it is copied, in a directory of " +
                "AGENT_SOURCE_ROOTS."
            })
          )
        )
      }),
      success: Schema.Struct({ switched: Schema.Literal(true), id: Schema.String, name: Schema.String }),
      error: [refused, unknown, conflict]
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "switchAgent",
        summary: "switch the current agent",
        description: "When the new agent cannot be started, the one before is current again and the answer is a 400."
      })
    ),
    HttpApiEndpoint.post("validateAgentName", "/api/agents/validate-name", {
      payload: Schema.Struct({ id: Schema.String }),
      success: Schema.Union([
        Schema.Struct({ valid: Schema.Literal(true) }),
        Schema.Struct({
          valid: Schema.Literal(false),
          conflict: Schema.Literals(["builtin", "custom", "invalid"]),
          message: Schema.String
        })
      ]),
      error: [issuesError(400, "The body is wrong (schema_validation).")]
    }).annotateMerge(
      OpenApi.annotations({ identifier: "validateAgentName", summary: "tell whether an id is free for a new agent" })
    ),
    HttpApiEndpoint.post("uninstallAgent", "/api/agents/uninstall", {
      payload: Schema.Struct({
        id: AgentId,
        force: Schema.optionalKey(
          Schema.Boolean.pipe(Schema.annotateKey({ description: "By default false: the active agent stays." }))
        )
      }),
      success: Schema.Struct({ uninstalled: Schema.Literal(true), id: Schema.String }),
      error: [refused, unknown, conflict]
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "uninstallAgent",
        summary: "uninstall an agent",
        description:
          "Removes it with its files and their backups; one that comes with the service can be installed again. After " +
          "the active one was removed by force, the default agent is active, installed again if need be; after the " +
          "default agent itself, none is."
      })
    ),
    HttpApiEndpoint.post("createCustomAgent", "/api/agents/custom/create", {
      payload: CreateWire,
      success: Schema.Struct({ created: Schema.Literal(true), id: Schema.String, name: Schema.String }).pipe(
        HttpApiSchema.status(201)
      ),
      error: [refused, conflict]
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "createCustomAgent",
        summary: "create an agent",
        description: "It does not become current."
      })
    )
  )
  .annotate(RefusesBy, refuseByIssues)
