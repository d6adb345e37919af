import { Duration, Effect, Option } from "effect"
import { mcpUri, type Resource, type ServerResource } from "../../domain/resource/Resource.ts"
import type { ResourceContent, ResourcePart } from "../../domain/resource/ResourceContent.ts"
import type { McpServers } from "../agent/McpServers.ts"
import type { McpFailed, McpResource, McpResourceContent } from "../ports/mcp/McpConnector.ts"
import type { ResourceProvider } from "./ResourceProvider.ts"

/** How long one server may hold up the list of all. */
const patience = Duration.seconds(5)

/** What one MCP server offers, by the addresses that the service gives it. */
export const listOfServer = Effect.fnUntraced(function* (servers: McpServers, server: string) {
  const connection = yield* servers.connection(server)
  return (yield* connection.resources).map((found) => resourceOf(server, found))
})

/** What one MCP server has at an address of its own; none if it says that there is nothing. */
export const readOfServer = Effect.fnUntraced(function* (servers: McpServers, server: string, id: string) {
  const connection = yield* servers.connection(server)
  const contents = yield* Effect.catchIf(connection.readResource(id), isRefusal, () => Effect.succeed([]))
  return contents.length === 0 ? Option.none() : Option.some(contentOf(server, contents))
})

/** What the MCP servers of the running agent offer. One that is away is missing from the list, and the log says so. */
export const mcpResources: ResourceProvider = {
  scheme: "mcp",
  list: ({ agent }) =>
    agent === undefined
      ? Effect.succeed([])
      : Effect.flatMap(agent.mcp.list, (servers) =>
          Effect.map(
            Effect.forEach(servers, ({ id }) => listUnlessAway(agent.mcp, id), { concurrency: "unbounded" }),
            (lists) =>
              lists.flat().map(({ originalUri, ...resource }): Resource => ({ ...resource, metadata: { originalUri } }))
          )
        ),
  exists: ({ agent }, uri) =>
    agent === undefined
      ? Effect.succeed(false)
      : Effect.flatMap(addressed(agent.mcp, uri), (found) =>
          Option.isNone(found)
            ? Effect.succeed(false)
            : Effect.orElseSucceed(offers(agent.mcp, found.value), () => false)
        ),
  read: ({ agent }, uri) =>
    agent === undefined
      ? Effect.succeedNone
      : Effect.flatMap(addressed(agent.mcp, uri), (found) =>
          Option.isNone(found)
            ? Effect.succeedNone
            : Effect.catchTag(
                readOfServer(agent.mcp, found.value.server, found.value.id),
                "UnknownMcpServer",
                () => Effect.succeedNone
              )
        )
}

interface Address {
  readonly server: string
  readonly id: string
}

/** The server that an address names, and what is its own of it. Of names that begin alike the longest. */
const addressed = (servers: McpServers, uri: string): Effect.Effect<Option.Option<Address>> =>
  Effect.map(servers.list, (listed) => {
    const [longest] = listed
      .filter(({ id }) => uri.startsWith(mcpUri(id, "")))
      .sort((a, b) => b.id.length - a.id.length)
    return Option.map(Option.fromUndefinedOr(longest), ({ id }) => ({
      server: id,
      id: uri.slice(mcpUri(id, "").length)
    }))
  })

/** What it lists is there without reading it; what it does not list may still be read, such as by a template. */
const offers = Effect.fnUntraced(function* (servers: McpServers, { id, server }: Address) {
  const listed = yield* listOfServer(servers, server)
  if (listed.some(({ uri }) => uri === mcpUri(server, id))) return true
  return Option.isSome(yield* readOfServer(servers, server, id))
})

const listUnlessAway = (servers: McpServers, server: string): Effect.Effect<ReadonlyArray<ServerResource>> =>
  listOfServer(servers, server).pipe(
    Effect.timeoutOrElse({
      duration: patience,
      orElse: () => Effect.as(Effect.logWarning("An MCP server does not list its resources.", { server }), [])
    }),
    Effect.catch(({ message }) =>
      Effect.as(Effect.logWarning("The resources of an MCP server are missing.", { server, reason: message }), [])
    )
  )

const isRefusal = ({ _tag, reason }: McpFailed): boolean => _tag === "McpFailed" && reason === "refused"

const resourceOf = (server: string, { description, mimeType, name, size, uri }: McpResource): ServerResource => ({
  uri: mcpUri(server, uri),
  name,
  ...(description === undefined ? {} : { description }),
  ...(mimeType === undefined ? {} : { mimeType }),
  source: "mcp",
  serverName: server,
  ...(size === undefined ? {} : { size }),
  originalUri: uri
})

const contentOf = (server: string, contents: ReadonlyArray<McpResourceContent>): ResourceContent => ({
  parts: contents.map((content) => partOf(server, content))
})

/** What a server calls binary is binary, even if it could be read. */
const partOf = (server: string, { bytes, mimeType, text, uri }: McpResourceContent): ResourcePart =>
  bytes === undefined
    ? {
        _tag: "Text",
        uri: mcpUri(server, uri),
        mimeType: mimeType ?? "text/plain",
        size: new TextEncoder().encode(text ?? "").length,
        isTruncated: false,
        text: text ?? ""
      }
    : {
        _tag: "Binary",
        uri: mcpUri(server, uri),
        name: uri,
        mimeType: mimeType ?? "application/octet-stream",
        size: bytes.length,
        isTruncated: false,
        bytes
      }
