import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Console, Effect, Exit, Layer, Option, Redacted, Schema } from "effect"
import * as Modules from "node:module"
import * as PackagedAgentsLive from "./adapters/agents/PackagedAgentsLive.ts"
import * as ExternalModelsLive from "./adapters/aisdk/ExternalModelsLive.ts"
import * as Catalogue from "./adapters/catalogue/Catalogue.ts"
import type { ModelsFile } from "./adapters/catalogue/ModelsFile.ts"
import * as ProvidersLive from "./adapters/catalogue/ProvidersLive.ts"
import * as Cli from "./adapters/cli/Cli.ts"
import { boundHeapGrowth } from "./adapters/config/HeapGrowth.ts"
import { gateway, secret, settings as readSettings, vendorSettings } from "./adapters/config/Settings.ts"
import * as IdsLive from "./adapters/crypto/IdsLive.ts"
import * as KeyTextsLive from "./adapters/crypto/KeyTextsLive.ts"
import * as NanoIdsLive from "./adapters/crypto/NanoIdsLive.ts"
import * as SecretsLive from "./adapters/crypto/SecretsLive.ts"
import * as AgentSourcesLive from "./adapters/filesystem/AgentSourcesLive.ts"
import * as HostFilesLive from "./adapters/filesystem/HostFilesLive.ts"
import * as WorkspaceFilesOnDisk from "./adapters/filesystem/WorkspaceFilesOnDisk.ts"
import * as McpConnectorLive from "./adapters/mcp/McpConnectorLive.ts"
import * as Clients from "./adapters/postgres/Clients.ts"
import { reasonOf } from "./adapters/postgres/Failures.ts"
import * as Migrations from "./adapters/postgres/Migrations.ts"
import * as PostgresLive from "./adapters/postgres/PostgresLive.ts"
import * as TokenizerLive from "./adapters/tokenizer/TokenizerLive.ts"
import type { Upstream } from "./adapters/vendors/Driver.ts"
import { anthropic } from "./adapters/vendors/drivers/Anthropic.ts"
import { compatible } from "./adapters/vendors/drivers/Compatible.ts"
import { drivers } from "./adapters/vendors/drivers/Drivers.ts"
import { openAi } from "./adapters/vendors/drivers/OpenAi.ts"
import { openAiCompatible } from "./adapters/vendors/drivers/OpenAiCompatible.ts"
import { openAiByResponses } from "./adapters/vendors/drivers/OpenAiResponses.ts"
import { ownKeyForms } from "./adapters/vendors/drivers/OwnKeys.ts"
import { AgentBackups } from "./application/agent/AgentBackups.ts"
import { AgentConfigs } from "./application/agent/AgentConfigs.ts"
import { Agents } from "./application/agent/Agents.ts"
import { ConnectMcpServer } from "./application/agent/ConnectMcpServer.ts"
import { CurrentAgent } from "./application/agent/CurrentAgent.ts"
import { Environment } from "./application/agent/Environment.ts"
import { RunningAgents } from "./application/agent/RunningAgents.ts"
import { GetBillingSummary } from "./application/billing/GetBillingSummary.ts"
import { HoldKeeper } from "./application/billing/HoldKeeper.ts"
import { Models } from "./application/catalog/Models.ts"
import { CompleteChat } from "./application/completion/CompleteChat.ts"
import { IdempotencyKeys } from "./application/completion/IdempotencyKeys.ts"
import { Approvals } from "./application/conversation/Approvals.ts"
import { Attachments } from "./application/conversation/Attachments.ts"
import { CallModel } from "./application/conversation/CallModel.ts"
import { Listen } from "./application/conversation/Listen.ts"
import { SendMessage } from "./application/conversation/SendMessage.ts"
import { SessionsOfWorkspace } from "./application/conversation/SessionsOfWorkspace.ts"
import * as Turns from "./application/conversation/Turns.ts"
import { Accounts } from "./application/identity/Accounts.ts"
import { Authenticate } from "./application/identity/Authenticate.ts"
import { FirstStart } from "./application/identity/FirstStart.ts"
import { ProviderKeyRing } from "./application/identity/ProviderKeyRing.ts"
import { EffectiveLlm } from "./application/llm/EffectiveLlm.ts"
import { LlmCatalog } from "./application/llm/LlmCatalog.ts"
import { LlmConfigs } from "./application/llm/LlmConfigs.ts"
import { Memories } from "./application/memory/Memories.ts"
import { StoreHealth } from "./application/ports/storage/StoreHealth.ts"
import { isService, ModelCatalog } from "./application/ports/vendor/ModelCatalog.ts"
import { Prompts } from "./application/prompt/Prompts.ts"
import { Resources } from "./application/resource/Resources.ts"
import { Search } from "./application/search/Search.ts"
import { billingSummaryRead } from "./domain/ratelimit/RatePolicy.ts"

/** What stops a start: one line for the operator. */
class StartFailed extends Schema.TaggedError<StartFailed>()("StartFailed", { message: Schema.String }) {}

const stop = (message: string): Layer.Layer<unknown, StartFailed> =>
  Layer.effectContext(Effect.fail(new StartFailed({ message })))

// -- Configuration ----------------------------------------------------------------------------------------------------

/** Every vendor that is reached with the operator's key, with organizations' own, or with both. */
const reachable = new Set([...drivers, ...ownKeyForms.map(({ driver }) => driver)])

/** How the upstreams of a models file are spoken to: as the vendor of their protocol is. */
const wires = { chat: openAi, responses: openAiByResponses, anthropic }

const vendors = Effect.fnUntraced(function* (file: ModelsFile | undefined) {
  const operated: Array<Upstream> = []
  const ownKeysOnly: Array<Upstream> = []
  /** For agents, which have keys of their own. */
  const agentProviders: Array<Upstream> = [{ ...openAiCompatible, apiKey: undefined }]
  const providers: Array<Catalogue.CatalogueOptions["providers"][number]> = []
  for (const driver of reachable) {
    const { apiKey, baseUrl } = yield* vendorSettings(driver)
    agentProviders.push({ ...driver, baseUrl: Option.getOrElse(baseUrl, () => driver.baseUrl), apiKey: undefined })
    const offered = { upstream: driver.id, prefix: driver.modelPrefix }
    const isOperated = Option.isSome(apiKey) && drivers.includes(driver)
    const own = ownKeyForms.filter((form) => form.driver === driver)
    if (!isOperated && own.length === 0) continue
    const upstreams = isOperated ? operated : ownKeysOnly
    upstreams.push({
      ...driver,
      baseUrl: Option.getOrElse(baseUrl, () => driver.baseUrl),
      apiKey: isOperated ? Redacted.value(apiKey.value) : undefined
    })
    if (isOperated) providers.push({ ...offered, provider: driver.id, method: "service" })
    providers.push(...own.map(({ joins, method, provider }) => ({ ...offered, provider, joins, method })))
  }
  for (const { baseUrl, dialect, keyVariable, name, protocol } of file?.upstreams ?? []) {
    const apiKey = keyVariable === undefined ? Option.none() : yield* secret(keyVariable)
    const wire = wires[protocol]
    operated.push({
      id: name,
      auth: wire.auth,
      protocol: wire.protocol,
      dialect: protocol === "chat" && dialect === "compatible" ? compatible : wire.dialect,
      baseUrl,
      apiKey: Option.getOrUndefined(Option.map(apiKey, Redacted.value))
    })
  }
  return { operated, ownKeysOnly, providers, agentProviders }
})

const readModelsFile = Effect.fnUntraced(function* (file: string) {
  const { read } = yield* Effect.promise(() => import("./adapters/catalogue/ModelsFile.ts"))
  return yield* read(file)
})

const configuration = Effect.gen(function* () {
  const settings = yield* readSettings
  const modelsFile = Option.isNone(settings.modelsFile) ? undefined : yield* readModelsFile(settings.modelsFile.value)
  const { agentProviders, operated, ownKeysOnly, providers } = yield* vendors(modelsFile)
  const echo = settings.store._tag === "Embedded" || operated.length === 0
  const catalogue = Catalogue.layer({ providers, modelsFile, echo })
  return { settings, operated, upstreams: [...operated, ...ownKeysOnly], agentProviders, catalogue }
}).pipe(Effect.mapError(({ message }) => new StartFailed({ message })))

type Configuration = Effect.Success<typeof configuration>

// -- Layers -----------------------------------------------------------------------------------------------------------

/** What only some commands need they load: all of them start faster without. */
const lazily = <M, A, E, R>(load: () => Promise<M>, layer: (module: M) => Layer.Layer<A, E, R>) =>
  Layer.unwrap(Effect.map(Effect.promise(load), layer))

const loadAgentYaml = () => import("./adapters/yaml/AgentYamlLive.ts")
const loadCluster = () => import("./adapters/cluster/ClusterLive.ts")
const loadEgress = () => import("./adapters/egress/EgressLive.ts")
const loadObservability = () => import("./adapters/observability/ObservabilityLive.ts")
const loadVendors = () => import("./adapters/vendors/VendorsLive.ts")

const Runtime = Layer.mergeAll(IdsLive.layer, KeyTextsLive.layer, NanoIdsLive.layer)

const client = ({ settings: { store } }: Configuration) =>
  (store._tag === "Server" ? Clients.server(store) : Clients.embedded(store.directory)).pipe(
    Layer.catchTag("SqlError", (error) => stop(`DATABASE_URL: the store cannot be used: ${reasonOf(error)}`)),
    Layer.catchTag("PlatformError", (error) => stop(`DATA_DIR: expected a directory to write to: ${reasonOf(error)}`)),
    Layer.catchTag("DirectoryInUse", ({ message }) => stop(message))
  )

/** The files of workspaces are in a directory of this machine, or where every replica has them, `.env` encrypted. */
const stores = (configuration: Configuration) => {
  const { agentSourceRoots, secretsKey, store } = configuration.settings
  const secrets = Option.isSome(secretsKey) ? SecretsLive.layerKey(secretsKey.value) : SecretsLive.layerNone
  return (
    store._tag === "Embedded"
      ? Layer.provideMerge(WorkspaceFilesOnDisk.layer(store.directory), PostgresLive.layer)
      : Layer.provide(PostgresLive.layerWithFiles, secrets)
  ).pipe(Layer.provideMerge(client(configuration)), Layer.merge(AgentSourcesLive.layer(agentSourceRoots)))
}

const identity = (configuration: Configuration) =>
  Layer.mergeAll(FirstStart.layer, Authenticate.layer, ProviderKeyRing.layer).pipe(
    Layer.provideMerge(Environment.layer),
    Layer.provideMerge(Accounts.layer),
    Layer.provideMerge(stores(configuration)),
    Layer.provideMerge(Runtime)
  )

const models = ({ catalogue }: Configuration) =>
  Layer.catchTag(catalogue, "ModelsFileInvalid", ({ message }) => stop(message))

/** The agents of workspaces: their files, what runs, and the MCP servers that it is connected with. */
const agents = ({ settings: { mcp } }: Configuration) =>
  Layer.mergeAll(Agents.layer, ConnectMcpServer.layer, LlmConfigs.layer).pipe(
    Layer.provideMerge(Layer.mergeAll(AgentConfigs.layer, LlmCatalog.layer)),
    Layer.provideMerge(Layer.mergeAll(EffectiveLlm.layer, RunningAgents.layer)),
    Layer.provideMerge(AgentBackups.layer),
    Layer.provide(McpConnectorLive.layer(mcp)),
    Layer.provideMerge(CurrentAgent.layer),
    Layer.provideMerge(lazily(loadAgentYaml, ({ layer }) => layer)),
    Layer.provideMerge(PackagedAgentsLive.layer),
    Layer.provideMerge(ProvidersLive.layer)
  )

/** What agents can read. Files of this machine never include the service's own. */
const resources = ({ settings: { agentSourceRoots, store } }: Configuration) =>
  Layer.provideMerge(
    Resources.layer,
    HostFilesLive.layer({ roots: agentSourceRoots, except: store._tag === "Embedded" ? [store.directory] : [] })
  )

/** What runs turns: every process on one Postgres is a member of one cluster, one with a store of its own is alone. */
const runner = ({ settings: { cluster, store } }: Configuration) =>
  lazily(loadCluster, ({ layerEmbedded, layerServer }) =>
    store._tag === "Embedded" ? layerEmbedded : layerServer(cluster)
  ).pipe(
    Layer.catchTag("SocketServerError", ({ reason }) =>
      stop(`CLUSTER_HOST, CLUSTER_PORT: cannot listen on ${cluster.host}:${cluster.port}: ${String(reason)}`)
    )
  )

/** Conversations with agents. */
const conversations = (configuration: Configuration) =>
  Layer.mergeAll(SendMessage.layer, Approvals.layer, Listen.layer).pipe(
    Layer.provideMerge(SessionsOfWorkspace.layer),
    Layer.provideMerge(runner(configuration)),
    Layer.provide(Turns.layer),
    Layer.provide(Attachments.layer),
    Layer.provide(CallModel.layer),
    Layer.provideMerge(Layer.merge(Memories.layer, Search.layer)),
    Layer.provideMerge(resources(configuration))
  )

/**
 * HTTP, and the connections of it that become WebSockets. `url` is where they are. What else serving needs is loaded with
 * it: while modules load nothing that a Postgres says is heard, and on a busy machine it would seem away.
 */
const served = Effect.promise(async () => {
  const [HttpLive, { Upgrades }, WebSocketsLive, { HttpServer }] = await Promise.all([
    import("./adapters/http/HttpLive.ts"),
    import("./adapters/http/runtime/Upgrades.ts"),
    import("./adapters/websocket/WebSocketsLive.ts"),
    import("effect/http"),
    loadAgentYaml(),
    loadCluster(),
    loadEgress(),
    loadObservability(),
    loadVendors()
  ])
  const sockets = Layer.effect(Upgrades, WebSocketsLive.WebSockets).pipe(Layer.provide(WebSocketsLive.layer))
  return {
    layer: (options: Parameters<typeof HttpLive.layer>[0]) => Layer.provide(HttpLive.layer(options), sockets),
    url: Effect.map(HttpServer.HttpServer, ({ address }) => HttpServer.formatAddress(address))
  }
})

const upstreams = ({ agentProviders, settings: { deadlines }, upstreams }: Configuration) =>
  lazily(loadVendors, ({ layer }) => layer(upstreams, deadlines, agentProviders))

const egress = ({ settings: { egress } }: Configuration) => lazily(loadEgress, ({ layer }) => layer(egress))

/** Every use case of the gateway, over the configured adapters. */
const useCases = (configuration: Configuration) =>
  Layer.mergeAll(GetBillingSummary.layer, IdempotencyKeys.layer, Prompts.layer, conversations(configuration)).pipe(
    Layer.provideMerge(CompleteChat.layer),
    Layer.provideMerge(agents(configuration)),
    Layer.provideMerge(Models.layer),
    Layer.provide(models(configuration)),
    Layer.provide(HoldKeeper.layer),
    Layer.provide(upstreams(configuration)),
    Layer.provide(
      ExternalModelsLive.layer(
        new Map(configuration.agentProviders.map(({ baseUrl, id }) => [id, baseUrl])),
        configuration.settings.deadlines
      )
    ),
    Layer.provideMerge(egress(configuration)),
    Layer.provide(TokenizerLive.layer),
    Layer.provideMerge(identity(configuration))
  )

// -- Commands ---------------------------------------------------------------------------------------------------------

const serve = Effect.gen(function* () {
  yield* boundHeapGrowth
  const configured = yield* configuration
  const { access, drain, host, logFormat, logLevel, otlpEndpoint, port, rates, store } = configured.settings
  const { layer, url } = yield* served
  const Http = layer({
    host,
    port,
    drain,
    access,
    policies: { listModels: rates.models, getBillingSummary: billingSummaryRead, createChatCompletion: rates.chat }
  }).pipe(Layer.catchTag("ServeError", ({ cause }) => stop(`PORT: cannot listen on ${host}:${port}: ${String(cause)}`)))
  return yield* Layer.launch(
    Layer.effectDiscard(Effect.flatMap(url, greet(store._tag === "Embedded"))).pipe(
      Layer.provide(Http),
      Layer.provide(useCases(configured))
    )
  ).pipe(
    Effect.provide(
      lazily(loadObservability, ({ layer }) =>
        layer({
          level: logLevel,
          format: logFormat === "auto" ? (process.stdout.isTTY ? "text" : "json") : logFormat,
          otlpEndpoint
        })
      )
    )
  )
})

/** Says where the service listens. The key of an embedded store's first start goes past every log, once. */
const greet = (embedded: boolean) => (url: string) =>
  Effect.gen(function* () {
    yield* Effect.logInfo(`Listening on ${url}`)
    // What was compiled is kept now, however this process ends; Deno does not compile this way.
    if ("flushCompileCache" in Modules) yield* Effect.sync(Modules.flushCompileCache)
    if (!embedded) return
    const key = yield* (yield* FirstStart).run
    if (Option.isNone(key)) return
    yield* Console.log(
      `\n  Your API key, shown only this once:\n\n    ${key.value}\n\n` +
        `  It belongs to the organization "default", which has 10 USD of credit. Try it:\n\n` +
        `    curl ${url}/v1/chat/completions -H "Authorization: Bearer ${key.value}" \\\n` +
        `      -d '{"model": "echo", "messages": [{"role": "user", "content": "Hello"}]}'\n`
    )
  })

/** A layer that is known once the configuration is read. */
const configuredLayer = <A, E, R>(make: (configuration: Configuration) => Layer.Layer<A, E, R>) =>
  Layer.unwrap(Effect.map(configuration, make))

const probed = (upstream: Upstream) =>
  Effect.flatMap(
    Effect.promise(() => import("./adapters/vendors/Probe.ts")),
    ({ probe }) => probe(upstream)
  )

/** What `doctor` looks at: the configuration, then everything it leads to. */
const checks = Effect.gen(function* () {
  const read = yield* Effect.exit(configuration)
  if (Exit.isFailure(read)) return [{ name: "configuration", run: Effect.as(configuration, "") }]
  const {
    operated,
    settings: { store }
  } = read.value
  return [
    { name: "configuration", run: Effect.succeed("every variable is valid") },
    {
      name: "store",
      run: Effect.gen(function* () {
        if (!(yield* (yield* StoreHealth).isReachable)) return yield* new StartFailed({ message: "it does not answer" })
        const organizations = yield* (yield* Accounts).organizations
        const place = store._tag === "Server" ? "Postgres" : `embedded in ${store.directory}`
        return `${place}, schema up to date, ${organizations.length} organizations`
      }).pipe(Effect.provide(identity(read.value)))
    },
    {
      name: "models",
      run: Effect.map(ModelCatalog, ({ entries }) => {
        const served = entries.filter(({ routes }) => routes.some(isService)).length
        return `${served} models are served, ${entries.length - served} more to organizations with keys of their own`
      }).pipe(Effect.provide(models(read.value)))
    },
    ...operated.map((upstream) => ({ name: `upstream ${upstream.id}`, run: probed(upstream) }))
  ]
})

Cli.run({
  serve,
  migrate: Effect.flatMap(configuration, (read) =>
    Migrations.run.pipe(
      Effect.tap(
        Effect.scoped(Effect.flatMap(Effect.promise(loadCluster), ({ migrations }) => Layer.build(migrations)))
      ),
      Effect.provide(client(read))
    )
  ),
  stores: configuredLayer(identity),
  models: configuredLayer(models),
  gateway,
  checks
}).pipe(
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain({
    // A signal is the regular end of a service.
    teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
  })
)
