import { SseError } from "@modelcontextprotocol/sdk/client/sse.js"
import { StreamableHTTPError } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { ErrorCode, McpError } from "@modelcontextprotocol/sdk/types.js"
import { Predicate } from "effect"
import { McpFailed } from "../../application/ports/mcp/McpConnector.ts"
import { ForbiddenAddress } from "../../application/ports/runtime/Egress.ts"

/** What an error of the SDK or of a transport means for whoever called the server. */
export const failureOf = (server: string, error: unknown, redact: (text: string) => string): McpFailed => {
  const failed = (reason: McpFailed["reason"], message: string) =>
    new McpFailed({ server, reason, message: `MCP server ${JSON.stringify(server)}: ${redact(message)}` })
  const forbidden = causesOf(error).find((cause) => cause instanceof ForbiddenAddress)
  if (forbidden !== undefined) return failed("forbidden address", forbidden.message)
  if (error instanceof McpError) {
    // The SDK tells of these two by codes that it made up.
    if (error.code === ErrorCode.RequestTimeout) return failed("deadline", "it did not answer in time.")
    if (error.code === ErrorCode.ConnectionClosed && error.message.endsWith("Connection closed")) {
      return failed("closed", "the connection was lost.")
    }
    return failed("refused", error.message.replace(/^MCP error -?\d+: /, ""))
  }
  if (error instanceof StreamableHTTPError || error instanceof SseError) {
    return failed("unreachable", error.message)
  }
  if (isMalformed(error)) return failed("protocol", "it answered with what is no message of the protocol.")
  const [deepest] = causesOf(error).reverse()
  return failed("unreachable", deepest?.message ?? String(error))
}

/** An error and what caused it, outermost first. */
const causesOf = (error: unknown): Array<Error> => (error instanceof Error ? [error, ...causesOf(error.cause)] : [])

/** Of the SDK's schemas, or of `JSON.parse`. */
const isMalformed = (error: unknown): boolean =>
  error instanceof SyntaxError || (Predicate.isError(error) && error.name === "ZodError")
