import { Context, type Effect, Schema, type Scope, type Stream } from "effect"
import type { McpServerConfig } from "../../../domain/agent/AgentConfig.ts"

/** An MCP server could not be reached, broke off, or answered nonsense. The message is fit for callers. */
export class McpFailed extends Schema.TaggedError<McpFailed>()("McpFailed", {
  server: Schema.String,
  reason: Schema.Literals(["unreachable", "deadline", "closed", "protocol", "refused", "forbidden address"]),
  message: Schema.String
}) {}

/**
 * Connections to MCP servers (decisions 7) over stdio, SSE and streamable HTTP. A connection lives as long as its
 * scope; a stdio server's process, with all that it started, ends with it and never outlives this process.
 */
export class McpConnector extends Context.Service<
  McpConnector,
  {
    readonly connect: (
      name: string,
      config: McpServerConfig & { readonly timeout: number }
    ) => Effect.Effect<McpConnection, McpFailed, Scope.Scope>
  }
>()("gateway/ports/mcp/McpConnector") {}

/** One server. Each call has the configured timeout as its deadline. */
export interface McpConnection {
  readonly tools: Effect.Effect<ReadonlyArray<McpTool>, McpFailed>
  /**
   * While the tool runs its server may ask a person by `elicitor`; that time does not count for the deadline. What the
   * server was given as secrets is taken out of the answer.
   */
  readonly callTool: (
    name: string,
    args: Readonly<Record<string, unknown>>,
    elicitor?: McpElicitor
  ) => Effect.Effect<McpToolResult, McpFailed>
  /** Empty when the server offers none. */
  readonly resources: Effect.Effect<ReadonlyArray<McpResource>, McpFailed>
  readonly readResource: (uri: string) => Effect.Effect<ReadonlyArray<McpResourceContent>, McpFailed>
  /** Empty when the server offers none. */
  readonly prompts: Effect.Effect<ReadonlyArray<McpPrompt>, McpFailed>
  readonly getPrompt: (
    name: string,
    args: Readonly<Record<string, string>>
  ) => Effect.Effect<{ readonly text: string; readonly resources: ReadonlyArray<string> }, McpFailed>
  /** What the server says has changed. */
  readonly notices: Stream.Stream<"tools" | "resources" | "prompts" | { readonly resource: string }>
  /** Completes when the connection is lost. */
  readonly lost: Effect.Effect<McpFailed>
}

/** Who answers what a server asks during a call (`elicitation/create`). */
export interface McpElicitor {
  /**
   * Whom it asks. The protocol does not say for which call a server asks: while calls of several run at the same time,
   * or one that has nobody to ask, the server is told that its question was declined.
   */
  readonly whom: string
  readonly ask: (form: McpForm) => Effect.Effect<McpFormAnswer>
}

export interface McpForm {
  readonly message: string
  /** JSON schema of an object. */
  readonly schema: Readonly<Record<string, unknown>>
}

export interface McpFormAnswer {
  readonly action: "accept" | "decline" | "cancel"
  /** What was filled in, of an accepted form. */
  readonly content?: Readonly<Record<string, unknown>>
}

export interface McpTool {
  readonly name: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  /** By its own word it only reads, or does no more when it is called again. */
  readonly isIdempotent: boolean
}

export interface McpToolResult {
  readonly isError: boolean
  /** The parts of the answer as the protocol has them. */
  readonly content: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly structuredContent?: Readonly<Record<string, unknown>>
}

export interface McpResource {
  readonly uri: string
  readonly name: string
  readonly description?: string
  readonly mimeType?: string
  readonly size?: number
}

/** Text, or bytes. */
export interface McpResourceContent {
  readonly uri: string
  readonly mimeType?: string
  readonly text?: string
  readonly bytes?: Uint8Array
}

export interface McpPrompt {
  readonly name: string
  readonly description: string
  readonly arguments: ReadonlyArray<{
    readonly name: string
    readonly description?: string
    readonly required?: boolean
  }>
}
