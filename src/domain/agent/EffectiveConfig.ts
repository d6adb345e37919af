import type { AgentConfig, AgentDocument, Contributor } from "./AgentConfig.ts"

/** An agent that does not say who it is. */
const card = { name: "agent", description: "An assistant with tools." }

/** The configuration that a document means once its variables are expanded: every default in its place (decisions 4). */
export const effectiveConfig = (document: AgentDocument): AgentConfig => {
  const { agentCard, internalResources, llm, sessions, starterPrompts, toolConfirmation } = document
  const { enabled, resources = [] } = isList(internalResources)
    ? { enabled: undefined, resources: internalResources }
    : (internalResources ?? {})
  const offered = enabled === false ? [] : resources
  return {
    agentCard: {
      ...agentCard,
      name: agentCard?.name ?? card.name,
      description: agentCard?.description ?? card.description
    },
    greeting: document.greeting,
    contributors: contributorsOf(document.systemPrompt),
    mcpServers: new Map(
      Object.entries(document.mcpServers ?? {}).map(([name, server]) => [
        name,
        { ...server, timeout: server.timeout ?? 30_000, connectionMode: server.connectionMode ?? "lenient" }
      ])
    ),
    internalTools: document.internalTools ?? [],
    llm: {
      provider: llm.provider,
      model: llm.model,
      apiKey: llm.apiKey?.trim() ?? "",
      maxIterations: llm.maxIterations ?? 50,
      router: llm.router ?? "in-built",
      baseURL: llm.baseURL,
      maxInputTokens: llm.maxInputTokens,
      maxOutputTokens: llm.maxOutputTokens,
      temperature: llm.temperature,
      allowedMediaTypes: llm.allowedMediaTypes
    },
    sessions: { maxSessions: sessions?.maxSessions ?? 100, sessionTTL: sessions?.sessionTTL ?? 3_600_000 },
    toolConfirmation: {
      mode: toolConfirmation?.mode ?? "event-based",
      timeout: toolConfirmation?.timeout ?? 120_000,
      allowedToolsStorage: toolConfirmation?.allowedToolsStorage ?? "storage",
      toolPolicies: {
        alwaysAllow: toolConfirmation?.toolPolicies?.alwaysAllow ?? [],
        alwaysDeny: toolConfirmation?.toolPolicies?.alwaysDeny ?? []
      }
    },
    filesystemResources: offered.flatMap((resource) =>
      resource.type === "filesystem"
        ? [
            {
              paths: resource.paths,
              maxDepth: resource.maxDepth ?? 3,
              maxFiles: resource.maxFiles ?? 1_000,
              includeHidden: resource.includeHidden ?? false,
              includeExtensions: resource.includeExtensions
            }
          ]
        : []
    ),
    blobResources: offered.some(({ type }) => type === "blob"),
    // The more important a prompt, the sooner it is shown; of a system prompt it is the other way round.
    starterPrompts: (starterPrompts ?? []).toSorted((a, b) => (b.priority ?? 0) - (a.priority ?? 0)),
    storage: document.storage,
    telemetry: document.telemetry
  }
}

/** What a document would say that leaves nothing to defaults. A key whose value is undefined is not there. */
export const documentOf = (config: AgentConfig): Readonly<Record<string, unknown>> => ({
  agentCard: config.agentCard,
  greeting: config.greeting,
  systemPrompt: { contributors: config.contributors },
  mcpServers: Object.fromEntries(config.mcpServers),
  internalTools: config.internalTools,
  llm: { ...config.llm, apiKey: config.llm.apiKey === "" ? undefined : config.llm.apiKey },
  storage: config.storage,
  sessions: config.sessions,
  toolConfirmation: config.toolConfirmation,
  internalResources: {
    enabled: config.filesystemResources.length > 0 || config.blobResources,
    resources: [
      ...config.filesystemResources.map((resource) => ({ type: "filesystem", ...resource })),
      ...(config.blobResources ? [{ type: "blob" }] : [])
    ]
  },
  starterPrompts: config.starterPrompts,
  telemetry: config.telemetry
})

const contributorsOf = (prompt: AgentDocument["systemPrompt"]): ReadonlyArray<Contributor> =>
  typeof prompt === "string"
    ? [{ id: "inline", type: "static", priority: 0, content: prompt }]
    : prompt.contributors.filter(({ enabled }) => enabled !== false).toSorted((a, b) => a.priority - b.priority)

const isList: (value: unknown) => value is ReadonlyArray<unknown> = Array.isArray
