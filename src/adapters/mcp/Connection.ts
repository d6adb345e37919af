import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { SseError } from "@modelcontextprotocol/sdk/client/sse.js"
import { StreamableHTTPClientTransport, StreamableHTTPError } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import type { RequestOptions } from "@modelcontextprotocol/sdk/shared/protocol.js"
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js"
import {
  CallToolResultSchema,
  type ContentBlock,
  ElicitRequestSchema,
  GetPromptResultSchema,
  ListPromptsResultSchema,
  ListResourcesResultSchema,
  ListToolsResultSchema,
  PromptListChangedNotificationSchema,
  ReadResourceResultSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema
} from "@modelcontextprotocol/sdk/types.js"
import { Deferred, Effect, Predicate, PubSub, type Scope, Stream } from "effect"
import { type McpConnection, McpFailed, type McpResourceContent } from "../../application/ports/mcp/McpConnector.ts"
import { failureOf } from "./McpFailures.ts"
import { StdioTransport } from "./StdioTransport.ts"
import * as ToolCalls from "./ToolCalls.ts"

/** Lists are read page by page up to so many items, and no more pages than that: a server may go on for ever. */
const mostItems = 1_000
const mostPages = 100

/** Resources whose changes a connection is told of. */
const mostSubscriptions = 100

/** The longest deadline that the library takes, in milliseconds, for calls that have one of their own. */
const longest = 2 ** 31 - 1

/** How long a server is waited for when the connection to it is closed in good order, in milliseconds. */
const mostParting = 1_000

/**
 * Makes a connection of a transport: the handshake, then calls. `timeout` is the deadline of each, in milliseconds.
 */
export const make = Effect.fnUntraced(function* (
  name: string,
  transport: Transport,
  timeout: number,
  { redact, withoutSecrets }: Secrecy
): Effect.fn.Return<McpConnection, McpFailed, Scope.Scope> {
  const scope = yield* Effect.scope
  const client = new Client(
    { name: "model-gateway", version: "1.0.0" },
    { capabilities: { elicitation: { form: {} } } }
  )
  const calls = yield* ToolCalls.make(timeout)
  client.setRequestHandler(ElicitRequestSchema, ({ params }, { signal }) => calls.answer(params, signal))
  const failed = (error: unknown) => failureOf(name, error, redact)
  const late = () =>
    new McpFailed({
      server: name,
      reason: "deadline",
      message: `MCP server ${JSON.stringify(name)}: it did not answer within ${timeout} ms.`
    })
  /** Interrupting it tells the server that nobody waits any longer. */
  const askWithin = <A>(timeout: number, request: (options: RequestOptions) => Promise<A>) =>
    Effect.tryPromise({
      try: (signal) => request({ signal, timeout }),
      catch: (error) => {
        if (isGone(error)) lose(failed(error))
        return failed(error)
      }
    })
  const ask = <A>(request: (options: RequestOptions) => Promise<A>): Effect.Effect<A, McpFailed> =>
    Effect.timeoutOrElse(askWithin(timeout, request), { duration: timeout, orElse: () => Effect.fail(late()) })

  const lost = yield* Deferred.make<McpFailed>()
  const lose = (failure: McpFailed) => void Deferred.doneUnsafe(lost, Effect.succeed(failure))
  const notices = yield* PubSub.sliding<Notice>(256)
  const tell = (notice: Notice) => void PubSub.publishUnsafe(notices, notice)
  client.onclose = () =>
    lose(
      new McpFailed({
        server: name,
        reason: "closed",
        message: `MCP server ${JSON.stringify(name)}: ${
          transport instanceof StdioTransport
            ? (transport.ending ?? "the connection was lost")
            : "the connection was lost"
        }.`
      })
    )
  client.onerror = (error) => {
    // The stream of a connection over SSE; the library under it would open another one, of another session.
    if (error instanceof SseError || error.message.startsWith("Maximum reconnection attempts")) lose(failed(error))
  }
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => tell("tools"))
  client.setNotificationHandler(ResourceListChangedNotificationSchema, () => tell("resources"))
  client.setNotificationHandler(PromptListChangedNotificationSchema, () => tell("prompts"))
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => tell({ resource: params.uri }))

  yield* Effect.addFinalizer(() => part(client, transport))
  yield* ask((options) => client.connect(transport, options)).pipe(
    // A program that could not be started says more by its end than by its silence.
    Effect.catch((error) =>
      error.reason === "closed" && Deferred.isDoneUnsafe(lost)
        ? Effect.flatMap(Deferred.await(lost), Effect.fail)
        : Effect.fail(error)
    )
  )
  const capabilities = client.getServerCapabilities() ?? {}

  /** All pages, with the deadline of one call. */
  const pages = <A>(page: (cursor: { readonly cursor?: string }) => Effect.Effect<Page<A>, McpFailed>) =>
    Effect.gen(function* () {
      const items: Array<A> = []
      let cursor: string | undefined
      for (let asked = 0; asked < mostPages && items.length < mostItems; asked++) {
        const read = yield* page(cursor === undefined ? {} : { cursor })
        items.push(...read.items)
        cursor = read.next
        if (cursor === undefined) break
      }
      return items.slice(0, mostItems)
    }).pipe(Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(late()) }))

  const subscribed = new Set<string>()
  /** So that the server tells when it changes; nobody waits for it, and nothing is lost if it does not. */
  const subscribe = (uri: string) =>
    Effect.suspend(() => {
      const worthwhile = capabilities.resources?.subscribe === true && subscribed.size < mostSubscriptions
      if (!worthwhile || subscribed.has(uri)) return Effect.void
      subscribed.add(uri)
      return Effect.ignore(
        ask((options) => client.subscribeResource({ uri }, options)),
        { log: false }
      )
    })

  return {
    // Not by the client's own `listTools`: it would compile the schemas that a server sends.
    tools:
      capabilities.tools === undefined
        ? Effect.succeed([])
        : pages((params) =>
            Effect.map(
              ask((options) => client.request({ method: "tools/list", params }, ListToolsResultSchema, options)),
              ({ nextCursor, tools }) => ({
                items: tools.map(({ annotations, description, inputSchema, name }) => ({
                  name,
                  description: description ?? "",
                  inputSchema,
                  isIdempotent: annotations?.readOnlyHint === true || annotations?.idempotentHint === true
                })),
                next: nextCursor
              })
            )
          ),
    callTool: Effect.fn("McpConnection.callTool")((tool, args, elicitor) =>
      Effect.map(
        calls.run(
          askWithin(longest, (options) =>
            client.request(
              { method: "tools/call", params: { name: tool, arguments: { ...args } } },
              CallToolResultSchema,
              options
            )
          ),
          late,
          elicitor
        ),
        ({ content, isError, structuredContent }) => ({
          isError: isError === true,
          content: content.map((part) => mapTexts(part, withoutSecrets)),
          ...(structuredContent === undefined ? {} : { structuredContent: mapTexts(structuredContent, withoutSecrets) })
        })
      )
    ),
    resources:
      capabilities.resources === undefined
        ? Effect.succeed([])
        : pages((params) =>
            Effect.map(
              ask((options) =>
                client.request({ method: "resources/list", params }, ListResourcesResultSchema, options)
              ),
              ({ nextCursor, resources }) => ({
                items: resources.map(({ description, mimeType, name, size, uri }) => ({
                  uri,
                  name,
                  ...(description === undefined ? {} : { description }),
                  ...(mimeType === undefined ? {} : { mimeType }),
                  ...(typeof size === "number" ? { size } : {})
                })),
                next: nextCursor
              })
            )
          ),
    readResource: Effect.fn("McpConnection.readResource")(function* (uri) {
      const { contents } = yield* ask((options) =>
        client.request({ method: "resources/read", params: { uri } }, ReadResourceResultSchema, options)
      )
      yield* Effect.forkIn(subscribe(uri), scope)
      return contents.map((content): McpResourceContent => ({
        uri: content.uri,
        ...(content.mimeType === undefined ? {} : { mimeType: content.mimeType }),
        ...("text" in content ? { text: content.text } : { bytes: Buffer.from(content.blob, "base64") })
      }))
    }),
    prompts:
      capabilities.prompts === undefined
        ? Effect.succeed([])
        : pages((params) =>
            Effect.map(
              ask((options) => client.request({ method: "prompts/list", params }, ListPromptsResultSchema, options)),
              ({ nextCursor, prompts }) => ({
                items: prompts.map(({ arguments: expected = [], description, name }) => ({
                  name,
                  description: description ?? "",
                  arguments: expected.map(({ description, name, required }) => ({
                    name,
                    ...(description === undefined ? {} : { description }),
                    ...(required === undefined ? {} : { required })
                  }))
                })),
                next: nextCursor
              })
            )
          ),
    getPrompt: Effect.fn("McpConnection.getPrompt")((prompt, args) =>
      Effect.map(
        ask((options) =>
          client.request(
            { method: "prompts/get", params: { name: prompt, arguments: { ...args } } },
            GetPromptResultSchema,
            options
          )
        ),
        ({ messages }) => promptOf(messages.map(({ content }) => content))
      )
    ),
    notices: Stream.fromPubSub(notices),
    lost: Deferred.await(lost)
  }
})

/** What keeps a server's secrets out of what is told of it. */
interface Secrecy {
  /** Of an error or a log line: also without what looks like a credential, and no longer than such a text may be. */
  readonly redact: (text: string) => string
  readonly withoutSecrets: (text: string) => string
}

/** Objects in objects, of a server's answer. What is deeper is left out, so that no answer is too deep to look through. */
const mostDepth = 128

/** The same object with other texts, however deep they are; its keys stay. */
const mapTexts = (
  value: Readonly<Record<string, unknown>>,
  change: (text: string) => string
): Readonly<Record<string, unknown>> => {
  const entries = (inner: object, depth: number) =>
    Object.fromEntries(Object.entries(inner).map(([key, each]) => [key, changed(each, depth + 1)]))
  const changed = (inner: unknown, depth: number): unknown => {
    if (Predicate.isString(inner)) return change(inner)
    if (!Predicate.isObjectOrArray(inner)) return inner
    if (depth > mostDepth) return null
    return Array.isArray(inner) ? inner.map((each) => changed(each, depth + 1)) : entries(inner, depth)
  }
  return entries(value, 0)
}

type Notice = "tools" | "resources" | "prompts" | { readonly resource: string }

interface Page<A> {
  readonly items: ReadonlyArray<A>
  readonly next: string | undefined
}

/** The server does not know this session, or nobody listens at its address: only a new connection can help. */
const isGone = (error: unknown): boolean =>
  error instanceof StreamableHTTPError
    ? error.code === 404 || (error.code === 400 && /session/i.test(error.message))
    : error instanceof TypeError && error.message === "fetch failed"

/** Ends a connection: over HTTP the server is told that its session is over, if it listens. */
const part = (client: Client, transport: Transport): Effect.Effect<void> =>
  Effect.promise(async (): Promise<void> => {
    if (transport instanceof StreamableHTTPClientTransport && transport.sessionId !== undefined) {
      const told = transport.terminateSession().catch(() => undefined)
      await Promise.race([told, new Promise((resolve) => setTimeout(resolve, mostParting).unref())])
    }
    // The client forgets its transport when a connection fails.
    await client.close().catch(() => undefined)
    await transport.close().catch(() => undefined)
  })

/** The texts of a prompt's messages one below the other, and the resources that they bring. */
const promptOf = (contents: ReadonlyArray<ContentBlock>) => {
  const texts: Array<string> = []
  const resources: Array<string> = []
  for (const content of contents) {
    if (content.type === "text") texts.push(content.text)
    else if (content.type === "resource") resources.push(content.resource.uri)
    else if (content.type === "resource_link") resources.push(content.uri)
  }
  return { text: texts.join("\n\n"), resources }
}
