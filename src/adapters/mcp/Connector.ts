import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { Effect } from "effect"
import { McpConnector, McpFailed } from "../../application/ports/mcp/McpConnector.ts"
import type { Egress } from "../../application/ports/runtime/Egress.ts"
import type { McpServerConfig } from "../../domain/agent/AgentConfig.ts"
import { isSecretName } from "../../domain/agent/ConfigRedaction.ts"
import { boundedFetch } from "./BoundedFetch.ts"
import * as Connection from "./Connection.ts"
import { failureOf } from "./McpFailures.ts"
import { redaction, withoutAll } from "./Redaction.ts"
import { StdioTransport } from "./StdioTransport.ts"

export interface McpOptions {
  /** Whether servers may be programs of this machine: whoever may configure one runs what he wants. */
  readonly stdio: "allowed" | "refused"
  /** What of this process's environment those programs get; nothing else of it. */
  readonly environment: Readonly<Record<string, string>>
}

/** Connections over the official library: see `McpConnector`. */
export const make = ({ environment, stdio }: McpOptions, egress: Egress["Service"]): McpConnector["Service"] => {
  const fetch = boundedFetch(egress.fetch)

  /** How to reach a server, and how the connection to it is left. */
  const reach = Effect.fnUntraced(function* (name: string, config: McpServerConfig, redact: (text: string) => string) {
    if (config.type === "stdio") {
      if (stdio === "refused") {
        return yield* new McpFailed({
          server: name,
          reason: "forbidden address",
          message: `MCP server ${JSON.stringify(name)}: this service starts no programs. Its operator allows it with MCP_STDIO=allowed.`
        })
      }
      const log = Effect.runForkWith(yield* Effect.context())
      return new StdioTransport({
        command: config.command,
        args: config.args ?? [],
        env: { ...environment, ...config.env },
        onStderr: (text) => void log(Effect.logDebug(`MCP server ${name}: ${redact(text.trimEnd())}`))
      })
    }
    if (!URL.canParse(config.url)) {
      return yield* new McpFailed({
        server: name,
        reason: "unreachable",
        message: `MCP server ${JSON.stringify(name)}: its url is no URL.`
      })
    }
    // Each connection is looked at again; this one says best what is wrong.
    yield* Effect.mapError(egress.check(config.url), (error) => failureOf(name, error, redact))
    const options = { fetch, requestInit: { headers: { ...config.headers } } }
    return config.type === "sse"
      ? // Deprecated, and what older servers speak.
        new SSEClientTransport(new URL(config.url), options)
      : new StreamableHTTPClientTransport(new URL(config.url), options)
  })

  return McpConnector.of({
    connect: Effect.fn("McpConnector.connect")(function* (name, config) {
      const redact = redaction(valuesOf(config))
      return yield* Connection.make(name, yield* reach(name, config, redact), config.timeout, {
        redact,
        withoutSecrets: withoutAll(secretsOf(config))
      })
    })
  })
}
/** What a server got from its configuration, and must not be seen in what is told of it. */
const valuesOf = (config: McpServerConfig): ReadonlyArray<string> => [
  ...(config.type === "stdio" ? Object.values(config.env ?? {}) : []),
  ...(config.type !== "stdio" && URL.canParse(config.url) ? [...new URL(config.url).searchParams.values()] : []),
  ...secretsOf(config)
]

/**
 * What of it is a secret by its name, and must not be seen in what its tools answer either. Others, such as the path of
 * a directory, are what these speak of.
 */
const secretsOf = (config: McpServerConfig): ReadonlyArray<string> => {
  if (config.type === "stdio") return namedSecrets(Object.entries(config.env ?? {}))
  return [
    ...Object.values(config.headers ?? {}).flatMap((value) => [value, value.replace(/^\S+\s+/, "")]),
    ...(URL.canParse(config.url) ? namedSecrets([...new URL(config.url).searchParams]) : [])
  ]
}

const namedSecrets = (entries: ReadonlyArray<readonly [string, string]>): ReadonlyArray<string> =>
  entries.filter(([name]) => isSecretName(name)).map(([, value]) => value)
