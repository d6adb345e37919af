import { Schema } from "effect"

const Text = Schema.NonEmptyString
const PositiveInt = Schema.Int.check(Schema.isGreaterThan(0))
const Milliseconds = PositiveInt

/** Free-form settings that the service keeps and passes on without reading them. */
const Settings = Schema.Record(Schema.String, Schema.Unknown)

const AgentCard = Schema.StructWithRest(
  Schema.Struct({
    name: Text,
    description: Schema.optionalKey(Schema.String),
    url: Schema.optionalKey(Schema.String),
    version: Schema.optionalKey(Schema.String)
  }),
  [Schema.Record(Schema.String, Schema.Unknown)]
)

const contributor = { id: Text, priority: Schema.Int, enabled: Schema.optionalKey(Schema.Boolean) }

/** A part of the system prompt; lower priorities come first. */
export const Contributor = Schema.Union([
  Schema.Struct({ ...contributor, type: Schema.Literal("static"), content: Schema.String }),
  Schema.Struct({
    ...contributor,
    type: Schema.Literal("dynamic"),
    source: Schema.Literals(["dateTime", "memorySummary", "resources"])
  }),
  Schema.Struct({
    ...contributor,
    type: Schema.Literal("file"),
    files: Schema.Array(Text).check(Schema.isMinLength(1)),
    options: Schema.optionalKey(Settings)
  }),
  Schema.Struct({ ...contributor, type: Schema.Literal("memory"), options: Schema.optionalKey(Settings) })
])
export type Contributor = typeof Contributor.Type

const mcpServer = {
  timeout: Schema.optionalKey(Milliseconds),
  connectionMode: Schema.optionalKey(Schema.Literals(["lenient", "strict"]))
}

const remote = { url: Text, headers: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)) }

/** How an MCP server is reached. `timeout` is milliseconds for each call. */
export const McpServerConfig = Schema.Union([
  Schema.Struct({
    ...mcpServer,
    type: Schema.Literal("stdio"),
    command: Text,
    args: Schema.optionalKey(Schema.Array(Schema.String)),
    env: Schema.optionalKey(Schema.Record(Schema.String, Schema.String))
  }),
  Schema.Struct({ ...mcpServer, ...remote, type: Schema.Literal("sse") }),
  Schema.Struct({ ...mcpServer, ...remote, type: Schema.Literal("http") })
])
export type McpServerConfig = typeof McpServerConfig.Type

export const Router = Schema.Literals(["in-built", "external-sdk"])
export type Router = typeof Router.Type

const LlmSection = Schema.Struct({
  provider: Text,
  model: Text,
  apiKey: Schema.optionalKey(Schema.String),
  maxIterations: Schema.optionalKey(PositiveInt),
  router: Schema.optionalKey(Router),
  baseURL: Schema.optionalKey(Text),
  maxInputTokens: Schema.optionalKey(PositiveInt),
  maxOutputTokens: Schema.optionalKey(PositiveInt),
  temperature: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0), Schema.isLessThanOrEqualTo(1))),
  /** Types of files that the model is shown, such as `image/*`; those it can take when absent. */
  allowedMediaTypes: Schema.optionalKey(Schema.Array(Text))
})

const ToolConfirmation = Schema.Struct({
  mode: Schema.optionalKey(Schema.Literals(["event-based", "auto-approve", "auto-deny"])),
  timeout: Schema.optionalKey(Milliseconds),
  allowedToolsStorage: Schema.optionalKey(Schema.Literals(["memory", "storage"])),
  toolPolicies: Schema.optionalKey(
    Schema.Struct({
      alwaysAllow: Schema.optionalKey(Schema.Array(Text)),
      alwaysDeny: Schema.optionalKey(Schema.Array(Text))
    })
  )
})

const InternalResource = Schema.Union([
  Schema.Struct({
    type: Schema.Literal("filesystem"),
    paths: Schema.Array(Text).check(Schema.isMinLength(1)),
    maxDepth: Schema.optionalKey(PositiveInt),
    maxFiles: Schema.optionalKey(PositiveInt),
    includeHidden: Schema.optionalKey(Schema.Boolean),
    includeExtensions: Schema.optionalKey(Schema.Array(Text))
  }),
  Schema.Struct({ type: Schema.Literal("blob") })
])

const StarterPrompt = Schema.Struct({
  id: Text,
  title: Schema.optionalKey(Schema.String),
  description: Schema.optionalKey(Schema.String),
  prompt: Text,
  category: Schema.optionalKey(Schema.String),
  priority: Schema.optionalKey(Schema.Int)
})
export type StarterPrompt = typeof StarterPrompt.Type

/**
 * What an agent's YAML may say (decisions 4): what is written there, before variables are expanded and defaults put in.
 * No other keys; what a kind of settings leaves to others is free-form.
 */
export const AgentDocument = Schema.Struct({
  agentCard: Schema.optionalKey(AgentCard),
  greeting: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(500))),
  systemPrompt: Schema.Union([
    Schema.String,
    Schema.Struct({ contributors: Schema.Array(Contributor).check(Schema.isMinLength(1)) })
  ]),
  mcpServers: Schema.optionalKey(Schema.Record(Schema.String, McpServerConfig)),
  internalTools: Schema.optionalKey(Schema.Array(Schema.String)),
  llm: LlmSection,
  storage: Schema.optionalKey(Settings),
  sessions: Schema.optionalKey(
    Schema.Struct({
      maxSessions: Schema.optionalKey(PositiveInt),
      sessionTTL: Schema.optionalKey(Milliseconds)
    })
  ),
  toolConfirmation: Schema.optionalKey(ToolConfirmation),
  internalResources: Schema.optionalKey(
    Schema.Union([
      Schema.Array(InternalResource),
      Schema.Struct({
        enabled: Schema.optionalKey(Schema.Boolean),
        resources: Schema.optionalKey(Schema.Array(InternalResource))
      })
    ])
  ),
  starterPrompts: Schema.optionalKey(Schema.Array(StarterPrompt)),
  telemetry: Schema.optionalKey(Settings)
})
export type AgentDocument = typeof AgentDocument.Type

/** The configuration that an agent runs by: variables expanded, every default in its place. */
export interface AgentConfig {
  readonly agentCard: { readonly name: string; readonly description: string } & Readonly<Record<string, unknown>>
  readonly greeting: string | undefined
  /** A plain prompt is one static contributor. In their order, without those that are not enabled. */
  readonly contributors: ReadonlyArray<Contributor>
  readonly mcpServers: ReadonlyMap<
    string,
    McpServerConfig & { readonly timeout: number; readonly connectionMode: "lenient" | "strict" }
  >
  readonly internalTools: ReadonlyArray<string>
  readonly llm: {
    readonly provider: string
    readonly model: string
    /** Empty when there is none, or its variable is not set. */
    readonly apiKey: string
    readonly maxIterations: number
    readonly router: Router
    readonly baseURL: string | undefined
    readonly maxInputTokens: number | undefined
    readonly maxOutputTokens: number | undefined
    readonly temperature: number | undefined
    readonly allowedMediaTypes: ReadonlyArray<string> | undefined
  }
  /** Milliseconds. */
  readonly sessions: { readonly maxSessions: number; readonly sessionTTL: number }
  readonly toolConfirmation: {
    readonly mode: "event-based" | "auto-approve" | "auto-deny"
    /** Milliseconds. */
    readonly timeout: number
    readonly allowedToolsStorage: "memory" | "storage"
    readonly toolPolicies: { readonly alwaysAllow: ReadonlyArray<string>; readonly alwaysDeny: ReadonlyArray<string> }
  }
  readonly filesystemResources: ReadonlyArray<{
    readonly paths: ReadonlyArray<string>
    readonly maxDepth: number
    readonly maxFiles: number
    readonly includeHidden: boolean
    /** Undefined: whatever the extension. */
    readonly includeExtensions: ReadonlyArray<string> | undefined
  }>
  /** Whether blobs are listed as resources. */
  readonly blobResources: boolean
  /** In the order of their priorities. */
  readonly starterPrompts: ReadonlyArray<StarterPrompt>
  readonly storage: Readonly<Record<string, unknown>> | undefined
  readonly telemetry: Readonly<Record<string, unknown>> | undefined
}
