import { Duration, Effect, Option, type Redacted, Schema } from "effect"
import { SecretsKey } from "../../application/ports/runtime/Secrets.ts"
import { chatCompletionsCreate, modelCatalogRead, type RatePolicy } from "../../domain/ratelimit/RatePolicy.ts"
import { ownPrivateAddress } from "./OwnAddress.ts"
import {
  Deadline,
  Directories,
  HttpUrl,
  InvalidSetting,
  optional,
  Origins,
  PostgresUrl,
  Secret,
  takesDeadline,
  takesTime,
  Time,
  wholeNumber,
  withDefault
} from "./Setting.ts"

/** Where data is kept: a Postgres server, or an embedded store in a directory. */
export type Store =
  | { readonly _tag: "Server"; readonly url: Redacted.Redacted; readonly maxConnections: number }
  | { readonly _tag: "Embedded"; readonly directory: string }

const rate = (variable: string, policy: RatePolicy) =>
  Effect.map(
    withDefault(variable, wholeNumber(1, 1_000_000_000), "a whole number of requests per minute", policy.limit),
    (limit): RatePolicy => ({ ...policy, limit })
  )

/** How long upstreams may take. What is not set here is left to their adapter. */
const upstreamDeadlines = Effect.gen(function* () {
  const connect = yield* optional("UPSTREAM_CONNECT_TIMEOUT", Deadline, takesDeadline)
  const firstByte = yield* optional("UPSTREAM_FIRST_BYTE_TIMEOUT", Deadline, takesDeadline)
  const idle = yield* optional("UPSTREAM_IDLE_TIMEOUT", Deadline, takesDeadline)
  const total = yield* optional("UPSTREAM_TOTAL_TIMEOUT", Deadline, takesDeadline)
  return {
    ...(Option.isSome(connect) ? { connect: connect.value } : {}),
    ...(Option.isSome(firstByte) ? { firstByte: firstByte.value } : {}),
    ...(Option.isSome(idle) ? { idle: idle.value } : {}),
    ...(Option.isSome(total) ? { total: total.value } : {})
  }
})

/** Who may use the runtime: by default anybody on this machine in embedded mode, else whoever has a key (decisions 1). */
const access = Effect.fnUntraced(function* (embedded: boolean, host: string) {
  const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/.test(host)
  const auth = yield* withDefault(
    "API_AUTH",
    Schema.Literals(["required", "open"]),
    "required or open",
    embedded && loopback ? "open" : "required"
  )
  if (auth === "open" && !loopback) {
    return yield* new InvalidSetting({
      variable: "API_AUTH",
      takes: "required, or open with HOST at a loopback address such as 127.0.0.1"
    })
  }
  const origins = yield* withDefault(
    "CORS_ORIGINS",
    Origins,
    "origins such as https://app.example.com, divided by commas",
    []
  )
  return { open: auth === "open", origins }
})

/**
 * What of this process's environment the programs get that run as MCP servers (decisions 7): what a program needs to find
 * its way about a machine, and nothing that could be a secret.
 */
const forMcpServers = [
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "TERM",
  "LANG",
  "LC_ALL",
  "TZ",
  "TMPDIR",
  "NODE_EXTRA_CA_CERTS",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR"
]

/** MCP servers as programs: on a server whoever has a key would run what he wants with the rights of this process. */
const mcp = Effect.fnUntraced(function* (embedded: boolean) {
  const stdio = yield* withDefault(
    "MCP_STDIO",
    Schema.Literals(["allowed", "refused"]),
    "allowed or refused",
    embedded ? "allowed" : "refused"
  )
  const environment: Record<string, string> = {}
  for (const variable of forMcpServers) {
    const value = yield* optional(variable, Schema.String, "a text")
    if (Option.isSome(value)) environment[variable] = value.value
  }
  return { stdio, environment }
})

/** The service's own settings (decisions 10). The first wrong one fails. */
export const settings = Effect.gen(function* () {
  const databaseUrl = yield* optional("DATABASE_URL", PostgresUrl, "a URL such as postgres://user@host:5432/name")
  const directory = yield* withDefault("DATA_DIR", Schema.String, "a directory", "./.data")
  const maxConnections = yield* withDefault(
    "DATABASE_CONNECTIONS",
    wholeNumber(2, 200),
    "a whole number from 2 to 200",
    10
  )
  const store: Store = Option.match(databaseUrl, {
    onNone: () => ({ _tag: "Embedded", directory }),
    onSome: (url) => ({ _tag: "Server", url, maxConnections })
  })
  const host = yield* withDefault(
    "HOST",
    Schema.String,
    "an address",
    store._tag === "Embedded" ? "127.0.0.1" : "0.0.0.0"
  )
  return {
    store,
    port: yield* withDefault("PORT", wholeNumber(0, 65_535), "a port from 0 to 65535", 8080),
    host,
    secretsKey: yield* optional(
      "SECRETS_KEY",
      SecretsKey,
      "32 bytes in base64, as `openssl rand -base64 32` prints them"
    ),
    modelsFile: yield* optional("MODELS_FILE", Schema.String, "the path of a YAML file"),
    agentSourceRoots: yield* withDefault("AGENT_SOURCE_ROOTS", Directories, "absolute directories, divided by :", []),
    logLevel: yield* withDefault(
      "LOG_LEVEL",
      Schema.Literals(["Trace", "Debug", "Info", "Warn", "Error", "None"]),
      "one of Trace, Debug, Info, Warn, Error, None",
      "Info"
    ),
    logFormat: yield* withDefault(
      "LOG_FORMAT",
      Schema.Literals(["auto", "json", "text"]),
      "one of auto, json, text",
      "auto"
    ),
    otlpEndpoint: yield* optional("OTEL_EXPORTER_OTLP_ENDPOINT", HttpUrl, "an http or https URL"),
    access: yield* access(store._tag === "Embedded", host),
    cluster: {
      host: yield* withDefault("CLUSTER_HOST", Schema.String, "an address of this machine", ownPrivateAddress()),
      port: yield* withDefault("CLUSTER_PORT", wholeNumber(0, 65_535), "a port from 0 to 65535", 0)
    },
    egress: {
      allowPrivate:
        (yield* withDefault(
          "ALLOW_PRIVATE_UPSTREAMS",
          Schema.Literals(["true", "false"]),
          "true or false",
          store._tag === "Embedded" ? "true" : "false"
        )) === "true"
    },
    mcp: yield* mcp(store._tag === "Embedded"),
    drain: {
      delay: yield* withDefault("DRAIN_DELAY", Time, takesTime, Duration.seconds(5)),
      timeout: yield* withDefault("DRAIN_TIMEOUT", Time, takesTime, Duration.seconds(30))
    },
    deadlines: yield* upstreamDeadlines,
    rates: {
      chat: yield* rate("RATE_LIMIT_CHAT", chatCompletionsCreate),
      models: yield* rate("RATE_LIMIT_MODELS", modelCatalogRead)
    }
  }
})

export type Settings = Effect.Success<typeof settings>

/** The operator's key and address for a vendor, by the names of their variables. */
export const vendorSettings = (variables: { readonly keyVariable: string; readonly baseUrlVariable: string }) =>
  Effect.all({
    apiKey: optional(variables.keyVariable, Secret, "an API key"),
    baseUrl: optional(variables.baseUrlVariable, HttpUrl, "an http or https URL")
  })

/** A secret under a name that the operator chose. */
export const secret = (variable: string) => optional(variable, Secret, "an API key")

/** Where the service is that the command line talks to, and as whom (decisions 11): by default this machine's. */
export const gateway = Effect.gen(function* () {
  const port = yield* withDefault("PORT", wholeNumber(0, 65_535), "a port from 0 to 65535", 8080)
  return {
    url: yield* withDefault("GATEWAY_URL", HttpUrl, "an http or https URL", `http://127.0.0.1:${port}`),
    key: yield* optional("GATEWAY_KEY", Secret, "a key of the service")
  }
})
