import {
  Clock,
  Context,
  Duration,
  Effect,
  Exit,
  Layer,
  PubSub,
  Redacted,
  Schedule,
  Schema,
  Scope,
  Semaphore,
  Stream
} from "effect"
import type { AgentConfig } from "../../domain/agent/AgentConfig.ts"
import { changedKeys, needsRestart } from "../../domain/agent/ConfigDiff.ts"
import type { ConfigError } from "../../domain/agent/ConfigIssue.ts"
import { documentOf } from "../../domain/agent/EffectiveConfig.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { AgentYaml } from "../ports/files/AgentYaml.ts"
import { WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"
import { type McpConnection, McpConnector, McpFailed } from "../ports/mcp/McpConnector.ts"
import { AgentBackups } from "./AgentBackups.ts"
import { type AgentFile, CurrentAgent, type NoCurrentAgent } from "./CurrentAgent.ts"
import { Environment } from "./Environment.ts"
import type { McpServers } from "./McpServers.ts"
import * as RunningServers from "./RunningServers.ts"
import type { ServerEvent } from "./SupervisedServer.ts"

/** The configuration of the current agent has mistakes, so it cannot run. */
export class AgentNotRunnable extends Schema.TaggedError<AgentNotRunnable>()("AgentNotRunnable", {
  message: Schema.String
}) {}

/**
 * The agents that run in this process: one for each workspace, started when it is first needed and again when its
 * configuration, its `.env` or its registry changes here or on another replica. It has the configuration in force and
 * the connections to its MCP servers, each supervised by itself: lost ones are restarted with backoff.
 */
export class RunningAgents extends Context.Service<
  RunningAgents,
  {
    readonly of: (workspace: OrganizationId) => Effect.Effect<RunningAgent, NoCurrentAgent | AgentNotRunnable>
    /**
     * Brings the running agent up to its files now. Gives the top-level keys whose values changed, and whether the agent
     * had to be started anew: changes of what it only reads, such as the greeting, are taken over as it runs. If it cannot
     * follow, it goes on as it was. One that did not run is started, and has nothing to compare with.
     */
    readonly reload: (
      workspace: OrganizationId
    ) => Effect.Effect<
      { readonly changes: ReadonlyArray<string>; readonly restarted: boolean },
      NoCurrentAgent | AgentNotRunnable
    >
    readonly events: Stream.Stream<AgentEvent>
  }
>()("gateway/agent/RunningAgents") {
  static readonly layer = Layer.effect(
    RunningAgents,
    Effect.gen(function* () {
      const current = yield* CurrentAgent
      const backups = yield* AgentBackups
      const environment = yield* Environment
      const yaml = yield* AgentYaml
      const files = yield* WorkspaceFiles
      const connector = yield* McpConnector
      const scope = yield* Effect.scope
      // All agents end at the same time: each may have processes that take theirs.
      const all = yield* Scope.fork(scope, "parallel")
      const events = yield* PubSub.sliding<AgentEvent>(4_096)
      const slots = new Map<OrganizationId, Slot>()

      const slotOf = (workspace: OrganizationId): Slot => {
        const found = slots.get(workspace)
        if (found !== undefined) return found
        const made: Slot = {
          workspace,
          turn: Semaphore.makeUnsafe(1),
          running: undefined,
          failed: undefined,
          used: 0,
          calls: 0,
          isLooking: false
        }
        slots.set(workspace, made)
        return made
      }

      /** The current agent as its files have it. */
      const configured = Effect.fnUntraced(function* (workspace: OrganizationId) {
        yield* backups.recover(workspace)
        const file = yield* current.file(workspace)
        const variables = yield* environment.variables(workspace)
        const { errors, valid } = yaml.read(
          file.text,
          new Map([...variables].map(([name, value]) => [name, Redacted.value(value)]))
        )
        if (valid === undefined) return yield* new AgentNotRunnable({ message: mistakesOf(file, errors) })
        return { file, config: valid.config }
      })

      const start = Effect.fnUntraced(function* (slot: Slot, { config, file }: Configured) {
        const own = yield* Scope.fork(all)
        return yield* Effect.gen(function* () {
          const servers = yield* RunningServers.make((server, event) =>
            Effect.forEach(eventsOf(slot.workspace, server, event), (told) => PubSub.publish(events, told), {
              discard: true
            })
          )
          yield* servers.follow(new Map(), config.mcpServers)
          const mcp: McpServers = {
            ...servers,
            connection: (server) =>
              Effect.suspend(() =>
                slot.running?.servers === servers
                  ? Effect.andThen(use(slot), Effect.map(servers.connection(server), counted(slot)))
                  : connectionOfNext(slot, file, server)
              )
          }
          return { agent: { file, config, mcp }, servers, scope: own }
        }).pipe(
          Effect.provideService(McpConnector, connector),
          Scope.provide(own),
          Effect.onError(() => Scope.close(own, Exit.void)),
          Effect.mapError(notConnected)
        )
      })

      const stop = (slot: Slot) =>
        Effect.suspend(() => {
          const { running } = slot
          slot.running = undefined
          return running === undefined ? Effect.void : Scope.close(running.scope, Exit.void)
        })

      const use = (slot: Slot) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          slot.used = now
        })

      /** A call of a tool may take longer than an agent is kept that nobody asks for. */
      const counted =
        (slot: Slot) =>
        (connection: McpConnection): McpConnection => ({
          ...connection,
          callTool: (...call) =>
            Effect.acquireUseRelease(
              Effect.sync(() => void slot.calls++),
              () => connection.callTool(...call),
              () =>
                Effect.andThen(
                  Effect.sync(() => void slot.calls--),
                  use(slot)
                )
            )
        })

      /** Of one that was stopped while somebody, such as a turn that waits for a person, still had it. */
      const connectionOfNext = (slot: Slot, { id }: AgentFile, server: string) =>
        of(slot.workspace).pipe(
          Effect.mapError(({ message }) => message),
          Effect.filterOrFail(
            ({ file }) => file.id === id,
            () => `Agent ${JSON.stringify(id)} does not run any more: another one was switched to.`
          ),
          Effect.mapError((message) => new McpFailed({ server, reason: "closed", message })),
          Effect.flatMap(({ mcp }) => mcp.connection(server))
        )

      /** Brings an agent that runs, or one that does not, up to its files. Only in its slot's turn. */
      const follow = Effect.fnUntraced(function* (slot: Slot) {
        const next = yield* Effect.tapErrorTag(configured(slot.workspace), "NoCurrentAgent", () => stop(slot))
        const { running } = slot
        if (running === undefined) {
          slot.running = yield* start(slot, next)
          return { changes: [], restarted: false }
        }
        const { config, file } = running.agent
        const changes = changedKeys(documentOf(config), documentOf(next.config))
        const isAnother = file.id !== next.file.id || file.path !== next.file.path
        if (isAnother) {
          const started = yield* start(slot, next)
          slot.running = started
          yield* Scope.close(running.scope, Exit.void)
        } else {
          yield* Effect.mapError(running.servers.follow(config.mcpServers, next.config.mcpServers), notConnected)
          slot.running = { ...running, agent: { ...running.agent, ...next } }
        }
        const restarted = isAnother || needsRestart(changes)
        if (restarted) {
          yield* PubSub.publish(events, {
            workspace: slot.workspace,
            _tag: "AgentRestarted",
            agentId: next.file.id,
            changesApplied: changes
          })
        }
        return { changes, restarted }
      })

      const of = Effect.fn("RunningAgents.of")(function* (workspace: OrganizationId) {
        const slot = slotOf(workspace)
        yield* use(slot)
        if (slot.running !== undefined) return slot.running.agent
        const { failed } = slot
        return yield* slot.turn.withPermit(
          Effect.gen(function* () {
            if (slot.running !== undefined) return slot.running.agent
            // Those who waited while it could not be started need not see it fail again, one after the other.
            if (slot.failed !== undefined && slot.failed !== failed) return yield* slot.failed
            const started = yield* configured(workspace).pipe(
              Effect.flatMap((next) => start(slot, next)),
              Effect.tapError((error) =>
                Effect.sync(() => {
                  slot.failed = error
                })
              )
            )
            slot.running = started
            return started.agent
          })
        )
      })

      const reload = Effect.fn("RunningAgents.reload")((workspace: OrganizationId) => {
        const slot = slotOf(workspace)
        return Effect.andThen(use(slot), slot.turn.withPermit(Effect.uninterruptible(follow(slot))))
      })

      /** One look at a time, and at most one more that waits: it sees what all others would. */
      const look = (slot: Slot) =>
        slot.turn
          .withPermit(
            Effect.suspend(() => {
              slot.isLooking = false
              return slot.running === undefined ? Effect.void : Effect.asVoid(follow(slot))
            })
          )
          .pipe(
            Effect.catchCause((cause) =>
              Effect.logWarning(
                `The agent of workspace ${slot.workspace} goes on as it was, its files cannot run.`,
                cause
              )
            )
          )

      yield* files.changes.pipe(
        Stream.runForEach(({ workspace }) => {
          const slot = slots.get(workspace)
          if (slot?.running === undefined || slot.isLooking) return Effect.void
          slot.isLooking = true
          return Effect.forkIn(look(slot), scope)
        }),
        Effect.forkScoped({ startImmediately: true })
      )

      const stopIdle = Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        for (const slot of slots.values()) {
          if (slot.running === undefined || slot.calls > 0 || now - slot.used < Duration.toMillis(idle)) continue
          if (yield* slot.running.servers.hasAdded) continue
          yield* Effect.forkIn(slot.turn.withPermit(stop(slot)), scope)
        }
      })
      yield* Effect.forkScoped(Effect.repeat(stopIdle, Schedule.spaced(Duration.minutes(1))))

      return RunningAgents.of({ of, reload, events: Stream.fromPubSub(events) })
    })
  )
}

/** An agent that nobody asked for so long is stopped. */
const idle = Duration.minutes(10)

/** A workspace's place for an agent. */
interface Slot {
  readonly workspace: OrganizationId
  /** Who starts, changes or stops the agent has it. */
  readonly turn: Semaphore.Semaphore
  running:
    | { readonly agent: RunningAgent; readonly servers: RunningServers.RunningServers; readonly scope: Scope.Closeable }
    | undefined
  /** How the last start that failed did. */
  failed: NoCurrentAgent | AgentNotRunnable | undefined
  /** When it was last asked for. Epoch milliseconds. */
  used: number
  /** Calls of its tools that run. */
  calls: number
  /** Whether somebody waits to look at what changed. */
  isLooking: boolean
}

interface Configured {
  readonly file: AgentFile
  readonly config: AgentConfig
}

const notConnected = ({ message }: McpFailed) =>
  new AgentNotRunnable({ message: `The agent needs a server that cannot be connected. ${message}` })

/** A caller can act on a few mistakes at a time. */
const mostMistakes = 5

const mistakesOf = ({ name }: AgentFile, errors: ReadonlyArray<ConfigError>): string =>
  `The configuration of agent ${JSON.stringify(name)} has mistakes. ${errors
    .slice(0, mostMistakes)
    .map(({ line, message, path }) => `Line ${line}${path === "" ? "" : `, ${path}`}: ${message}`)
    .join("; ")}`

const eventsOf = (
  workspace: OrganizationId,
  server: string,
  event: ServerEvent | { readonly _tag: "Removed" }
): ReadonlyArray<AgentEvent> => {
  const resources = { workspace, _tag: "ResourcesChanged", serverName: server } as const
  switch (event._tag) {
    case "Connected":
      return [
        { workspace, _tag: "McpServerConnected", name: server, success: true },
        { workspace, _tag: "ToolsUpdated", tools: event.tools, source: server },
        { ...resources, action: "server_connected" }
      ]
    case "Failed":
      return [{ workspace, _tag: "McpServerConnected", name: server, success: false, error: event.failure.message }]
    case "ToolsChanged":
      return [{ workspace, _tag: "ToolsUpdated", tools: event.tools, source: server }]
    case "ResourcesChanged":
      return event.uri === undefined
        ? [{ ...resources, action: "list_changed" }]
        : [{ ...resources, resourceUri: event.uri, action: "updated" }]
    case "Removed":
      return [
        { workspace, _tag: "ToolsUpdated", tools: [], source: server },
        { ...resources, action: "server_removed" }
      ]
  }
}

export interface RunningAgent {
  readonly file: AgentFile
  readonly config: AgentConfig
  readonly mcp: McpServers
}

/** What happens to running agents, for whoever shows it (decisions 6). */
export type AgentEvent = { readonly workspace: OrganizationId } & (
  | { readonly _tag: "AgentRestarted"; readonly agentId: string; readonly changesApplied: ReadonlyArray<string> }
  | { readonly _tag: "McpServerConnected"; readonly name: string; readonly success: boolean; readonly error?: string }
  | { readonly _tag: "ToolsUpdated"; readonly tools: ReadonlyArray<string>; readonly source: string }
  | {
      readonly _tag: "ResourcesChanged"
      readonly serverName: string
      readonly resourceUri?: string
      readonly action: "updated" | "server_connected" | "server_removed" | "list_changed"
    }
)
