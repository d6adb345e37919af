import { Effect, Layer, Logger, Option, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { type McpServers, UnknownMcpServer } from "../../src/application/agent/McpServers.ts"
import { type RunningAgent, RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import type { ToolCallContext } from "../../src/application/conversation/AgentTool.ts"
import { HostFiles } from "../../src/application/ports/files/HostFiles.ts"
import { type McpConnection, McpFailed, type McpTool } from "../../src/application/ports/mcp/McpConnector.ts"
import { Resources } from "../../src/application/resource/Resources.ts"
import type { AgentDocument } from "../../src/domain/agent/AgentConfig.ts"
import { effectiveConfig } from "../../src/domain/agent/EffectiveConfig.ts"
import { SessionId } from "../../src/domain/conversation/Session.ts"
import { TurnId } from "../../src/domain/conversation/Turn.ts"
import { allows } from "../../src/domain/resource/FileRules.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { fileOf } from "./AgentFiles.ts"

/** An MCP server of a test: its connection, or why there is none. */
export type ServerAtHand = Partial<McpConnection> | McpFailed["reason"] | "slow"

export const failed = (server: string, reason: McpFailed["reason"]) =>
  new McpFailed({ server, reason, message: `${server}: ${reason}` })

export const toolOf = (name: string, fields: Partial<McpTool> = {}): McpTool => ({
  name,
  description: `It does ${name}.`,
  inputSchema: { type: "object", properties: {} },
  isIdempotent: false,
  ...fields
})

const connectionOf = (given: Partial<McpConnection>): McpConnection => ({
  tools: Effect.succeed([]),
  callTool: () => Effect.die("not used"),
  resources: Effect.succeed([]),
  readResource: () => Effect.succeed([]),
  prompts: Effect.succeed([]),
  getPrompt: () => Effect.die("not used"),
  notices: Stream.empty,
  lost: Effect.never,
  ...given
})

export const serversOf = (servers: Readonly<Record<string, ServerAtHand>>): McpServers => ({
  list: Effect.succeed(Object.keys(servers).map((id) => ({ id, name: id, status: "connected" as const }))),
  connection: (server) => {
    const found = servers[server]
    if (found === undefined) return Effect.fail(new UnknownMcpServer({ server }))
    if (found === "slow") return Effect.never
    return typeof found === "string" ? Effect.fail(failed(server, found)) : Effect.succeed(connectionOf(found))
  },
  add: () => Effect.die("not used"),
  remove: () => Effect.die("not used"),
  restart: () => Effect.die("not used")
})

/** The agent of every workspace of a test. */
export const agentWith = (
  document: Partial<AgentDocument> = {},
  servers: Readonly<Record<string, ServerAtHand>> = {}
): RunningAgent => ({
  file: fileOf({}),
  config: effectiveConfig({ systemPrompt: "", llm: { provider: "service", model: "echo" }, ...document }),
  mcp: serversOf(servers)
})

/** A machine with these files, by their absolute paths. */
export const hostWith = (files: ReadonlyMap<string, string>) =>
  Layer.succeed(HostFiles, {
    list: (root, rules) =>
      Effect.succeed(
        [...files].flatMap(([path, text]) => {
          const below = path === root ? "" : path.startsWith(`${root}/`) ? path.slice(root.length + 1) : undefined
          return below === undefined || !allows(rules, root, below)
            ? []
            : [{ path: below, size: Buffer.byteLength(text), lastModified: 0 }]
        })
      ),
    read: (root, path, most) =>
      Effect.sync(() =>
        Option.map(Option.fromUndefinedOr(files.get(path === "" ? root : `${root}/${path}`)), (text) => ({
          bytes: Buffer.from(text).subarray(0, most),
          size: Buffer.byteLength(text),
          lastModified: 0
        }))
      )
  })

/** In-memory stores, the resources of an agent, a clock that stands, and the log as it was written. */
export const around = (agent: RunningAgent, files: ReadonlyMap<string, string> = new Map()) => {
  const log: Array<string> = []
  const logger = Logger.make(({ message }) => void log.push(JSON.stringify(message)))
  const layer = Resources.layer.pipe(
    Layer.provideMerge(
      Layer.succeed(RunningAgents, {
        of: () => Effect.succeed(agent),
        reload: () => Effect.die("not used"),
        events: Stream.empty
      })
    ),
    Layer.provideMerge(hostWith(files)),
    Layer.provideMerge(InMemoryLive.layer),
    Layer.provideMerge(TestClock.layer()),
    Layer.provideMerge(Logger.layer([logger]))
  )
  return { layer, log }
}

export const session = SessionId.make("morning")

/** A call by a turn of a session, whose questions are answered by `elicit`. */
export const callIn = (
  workspace: OrganizationId,
  elicit: ToolCallContext["elicit"] = () => Effect.die("nobody was to be asked"),
  callId = "call-1"
): ToolCallContext => ({ turn: { workspace, session, turn: TurnId.make("turn") }, callId, elicit })
