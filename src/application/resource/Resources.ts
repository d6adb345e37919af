import { Context, Effect, Layer, Option } from "effect"
import { mcpUri, type Resource, ResourceNotFound, type ServerResource } from "../../domain/resource/Resource.ts"
import type { ResourceContent } from "../../domain/resource/ResourceContent.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { UnknownMcpServer } from "../agent/McpServers.ts"
import { RunningAgents } from "../agent/RunningAgents.ts"
import type { McpFailed } from "../ports/mcp/McpConnector.ts"
import { blobResources } from "./BlobResources.ts"
import { fileResources } from "./FileResources.ts"
import { listOfServer, mcpResources, readOfServer } from "./McpResources.ts"
import type { ResourcePlace } from "./ResourceProvider.ts"

/**
 * What the agent of a workspace can read (section 4.8): files, blobs, and what its MCP servers offer. A workspace whose
 * agent cannot run has neither files nor servers.
 */
export class Resources extends Context.Service<
  Resources,
  {
    readonly list: (workspace: OrganizationId) => Effect.Effect<ReadonlyArray<Resource>>
    /** Whether it can be found now; a resource of an MCP server that is away cannot. */
    readonly exists: (workspace: OrganizationId, uri: string) => Effect.Effect<boolean>
    readonly read: (
      workspace: OrganizationId,
      uri: string
    ) => Effect.Effect<ResourceContent, ResourceNotFound | McpFailed>
    /** What one MCP server offers. */
    readonly ofServer: (
      workspace: OrganizationId,
      server: string
    ) => Effect.Effect<ReadonlyArray<ServerResource>, UnknownMcpServer | McpFailed>
    /** What one MCP server has at an address of its own. */
    readonly readOfServer: (
      workspace: OrganizationId,
      server: string,
      id: string
    ) => Effect.Effect<ResourceContent, UnknownMcpServer | ResourceNotFound | McpFailed>
  }
>()("gateway/resource/Resources") {
  static readonly layer = Layer.effect(
    Resources,
    Effect.gen(function* () {
      const agents = yield* RunningAgents
      const providers = [yield* fileResources, yield* blobResources, mcpResources]

      const placeOf = Effect.fnUntraced(function* (workspace: OrganizationId) {
        const agent = yield* Effect.catchTags(Effect.asSome(agents.of(workspace)), {
          NoCurrentAgent: () => Effect.succeedNone,
          AgentNotRunnable: () => Effect.succeedNone
        })
        const place: ResourcePlace = { workspace, agent: Option.getOrUndefined(agent) }
        return place
      })

      const serversOf = Effect.fnUntraced(function* (workspace: OrganizationId, server: string) {
        const { agent } = yield* placeOf(workspace)
        return agent === undefined ? yield* new UnknownMcpServer({ server }) : agent.mcp
      })

      const providerOf = (uri: string) =>
        isStrange(uri) ? undefined : providers.find(({ scheme }) => uri.startsWith(`${scheme}:`))

      const read = Effect.fn("Resources.read")(function* (workspace: OrganizationId, uri: string) {
        const provider = providerOf(uri)
        const found = provider === undefined ? Option.none() : yield* provider.read(yield* placeOf(workspace), uri)
        return Option.isNone(found) ? yield* new ResourceNotFound({ uri }) : found.value
      })

      return Resources.of({
        list: Effect.fn("Resources.list")(function* (workspace) {
          const place = yield* placeOf(workspace)
          const lists = yield* Effect.forEach(providers, ({ list }) => list(place), { concurrency: "unbounded" })
          return lists.flat()
        }),
        exists: Effect.fn("Resources.exists")(function* (workspace, uri) {
          const provider = providerOf(uri)
          return provider === undefined ? false : yield* provider.exists(yield* placeOf(workspace), uri)
        }),
        read,
        ofServer: Effect.fn("Resources.ofServer")(function* (workspace, server) {
          return yield* listOfServer(yield* serversOf(workspace, server), server)
        }),
        readOfServer: Effect.fn("Resources.readOfServer")(function* (workspace, server, id) {
          const found = yield* readOfServer(yield* serversOf(workspace, server), server, id)
          return Option.isNone(found) ? yield* new ResourceNotFound({ uri: mcpUri(server, id) }) : found.value
        })
      })
    })
  )
}

/** No resource is called so; an address may reach other programs and the store. */
// oxlint-disable-next-line no-control-regex
const isStrange = (uri: string): boolean => /[\0-\x1f\x7f]/.test(uri) || !uri.isWellFormed()
