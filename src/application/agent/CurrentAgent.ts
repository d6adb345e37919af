import { Context, Effect, Layer, Option, Schema } from "effect"
import type { AgentId } from "../../domain/agent/Agent.ts"
import { AgentRegistry, registryPath } from "../../domain/agent/AgentRegistry.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import type { WorkspaceConflict } from "../../domain/workspace/WorkspaceErrors.ts"
import { WorkspacePath } from "../../domain/workspace/WorkspacePath.ts"
import { type PackagedAgent, PackagedAgents } from "../ports/files/PackagedAgents.ts"
import { type FileChange, WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"

/** The workspace has no current agent, or its file is gone. */
export class NoCurrentAgent extends Schema.TaggedError<NoCurrentAgent>()("NoCurrentAgent", {}) {
  override get message() {
    return "No agent is active in this workspace. POST /api/agents/switch with the id of an installed agent."
  }
}

/**
 * A workspace's registry of agents, and the file of its current agent. A new workspace is furnished at first use:
 * the first packaged agent is installed and current.
 */
export class CurrentAgent extends Context.Service<
  CurrentAgent,
  {
    /** The registry with the version that a change of it is based on. */
    readonly registry: (
      workspace: OrganizationId
    ) => Effect.Effect<{ readonly registry: AgentRegistry; readonly version: string }>
    /** The current agent with the text of its file. */
    readonly file: (workspace: OrganizationId) => Effect.Effect<AgentFile, NoCurrentAgent>
    /** Writes the current agent's file in place of the version that was read. */
    readonly replace: (
      workspace: OrganizationId,
      file: AgentFile,
      text: string
    ) => Effect.Effect<void, WorkspaceConflict>
  }
>()("gateway/agent/CurrentAgent") {
  static readonly layer = Layer.effect(
    CurrentAgent,
    Effect.gen(function* () {
      const files = yield* WorkspaceFiles
      const packaged = yield* PackagedAgents
      const [standard] = yield* packaged.list
      if (standard === undefined) return yield* Effect.die(new Error("no agent is packaged"))

      /**
       * Of two that furnish a workspace at the same time, the second finds what the first has done. Where only the
       * registry is gone, the agent's files stay as their user left them.
       */
      const furnish = Effect.fnUntraced(function* (workspace: OrganizationId) {
        const changes: Array<FileChange> = []
        for (const change of furnishing(standard)) {
          if (Option.isNone(yield* files.read(workspace, change.path))) changes.push(change)
        }
        yield* Effect.ignore(files.commit(workspace, changes), { log: false })
      })

      const registry = Effect.fn("CurrentAgent.registry")(function* (workspace: OrganizationId) {
        let found = yield* files.read(workspace, registryPath)
        if (Option.isNone(found)) {
          yield* furnish(workspace)
          found = yield* files.read(workspace, registryPath)
        }
        const { content, version } = yield* Effect.orDie(Effect.fromOption(found))
        const root = yield* files.root(workspace)
        const registry = yield* Effect.catch(decodeRegistry(textOf(content)), (error) =>
          Effect.die(new Error(unreadable(`${root}/${registryPath}`), { cause: error }))
        )
        return { registry, version }
      })

      const file = Effect.fn("CurrentAgent.file")(function* (workspace: OrganizationId) {
        const { current } = (yield* registry(workspace)).registry
        if (current === null) return yield* new NoCurrentAgent()
        const found = yield* files.read(workspace, current.main)
        if (Option.isNone(found)) return yield* new NoCurrentAgent()
        const { content, lastModified, version } = found.value
        return {
          id: current.id,
          name: current.name,
          path: current.main,
          text: textOf(content),
          version,
          lastModified,
          isDefault: current.id === standard.agent.id
        }
      })

      return CurrentAgent.of({
        registry,
        file,
        replace: Effect.fn("CurrentAgent.replace")((workspace, { path, version }, text) =>
          files.commit(workspace, [{ path, content: bytesOf(text), basedOn: version }])
        )
      })
    })
  )
}

/** What installs a packaged agent into a workspace that has none, and makes it current. */
const furnishing = ({ agent, files, main }: PackagedAgent): ReadonlyArray<FileChange> => {
  const place = (name: string) => WorkspacePath.make(`agents/${agent.id}/${name}`)
  const installed = { ...agent, main: place(main) }
  return [
    ...[...files].map(([name, content]) => ({ path: place(name), content, basedOn: null })),
    {
      path: registryPath,
      content: bytesOf(
        encodeRegistry({ agents: [installed], current: { id: agent.id, name: agent.name, main: place(main) } })
      ),
      basedOn: null
    }
  ]
}

/** For who has the log: no caller can mend it, and nothing but people writes anything else there. */
const unreadable = (path: string): string =>
  `${path} is no registry of agents. Mend it, or remove it: then it is made anew with the default agent alone.`

const decodeRegistry = Schema.decodeEffect(Schema.fromJsonString(AgentRegistry))

/** As people like to read it: the file is theirs too. */
export const encodeRegistry = (registry: AgentRegistry): string =>
  `${JSON.stringify(Schema.encodeSync(AgentRegistry)(registry), undefined, 2)}\n`

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

/** Bytes that are no UTF-8 become signs that the reader of the text complains of. */
const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

export interface AgentFile {
  readonly id: AgentId
  readonly name: string
  readonly path: WorkspacePath
  readonly text: string
  readonly version: string
  /** Epoch milliseconds. */
  readonly lastModified: number
  /** Whether it is the agent that a new workspace has. */
  readonly isDefault: boolean
}
