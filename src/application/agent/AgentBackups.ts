import { Clock, Context, Effect, Layer, Option, Redacted } from "effect"
import type { AgentId } from "../../domain/agent/Agent.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { WorkspacePath } from "../../domain/workspace/WorkspacePath.ts"
import { type AgentReading, AgentYaml } from "../ports/files/AgentYaml.ts"
import { type FileChange, WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"
import { CurrentAgent } from "./CurrentAgent.ts"
import { Environment } from "./Environment.ts"

/** What agents' files were before they were changed (decisions 3): `backups/<agent>/<time>.yml`, the ten newest. */
export class AgentBackups extends Context.Service<
  AgentBackups,
  {
    /** The changes that keep a content, to be committed with the one that replaces it. */
    readonly keeping: (
      workspace: OrganizationId,
      agent: AgentId,
      content: Uint8Array
    ) => Effect.Effect<ReadonlyArray<FileChange>>
    /**
     * Once for each workspace, before its current agent is first used: when the agent's file does not load and a backup
     * does, the newest of these takes its place. What did not load is kept beside the backups as `<time>.unfit.yml`.
     */
    readonly recover: (workspace: OrganizationId) => Effect.Effect<void>
  }
>()("gateway/agent/AgentBackups") {
  static readonly layer = Layer.effect(
    AgentBackups,
    Effect.gen(function* () {
      const files = yield* WorkspaceFiles
      const current = yield* CurrentAgent
      const yaml = yield* AgentYaml
      const environment = yield* Environment
      const recovered = new Set<OrganizationId>()

      const backupsOf = (workspace: OrganizationId, agent: AgentId) =>
        Effect.map(files.list(workspace, directoryOf(agent)), (found) =>
          found.map(({ path }) => path).filter((path) => timeOf(path) !== undefined)
        )

      const kept = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        agent: AgentId,
        content: Uint8Array,
        ending: string
      ) {
        const present = yield* backupsOf(workspace, agent)
        // Two within a millisecond, or after the clock was set back, stay in their order.
        const newest = Math.max(0, ...present.map((path) => timeOf(path) ?? 0))
        const time = Math.max(yield* Clock.currentTimeMillis, newest + 1)
        const added: FileChange = {
          path: WorkspacePath.make(`${directoryOf(agent)}/${nameOf(time)}${ending}`),
          content,
          basedOn: null
        }
        const removed = present
          .toSorted()
          .slice(0, Math.max(0, present.length + 1 - most))
          .map((path): FileChange => ({ path, content: null, basedOn: undefined }))
        return [added, ...removed]
      })

      const restoreNewest = Effect.fnUntraced(function* (workspace: OrganizationId) {
        const file = yield* current.file(workspace)
        const variables = new Map(
          [...(yield* environment.variables(workspace))].map(([name, value]) => [name, Redacted.value(value)])
        )
        if (loads(yaml.read(file.text, variables))) return
        const broken = yield* files.read(workspace, file.path)
        for (const path of (yield* backupsOf(workspace, file.id)).toSorted().toReversed()) {
          if (path.endsWith(unfit)) continue
          const backup = yield* files.read(workspace, path)
          if (Option.isNone(backup) || Option.isNone(broken)) continue
          const { content } = backup.value
          if (!loads(yaml.read(new TextDecoder().decode(content), variables))) continue
          yield* files.commit(workspace, [
            ...(yield* kept(workspace, file.id, broken.value.content, unfit)),
            { path: file.path, content, basedOn: file.version }
          ])
          return yield* Effect.logWarning(`${file.path} did not load: ${path} was put in its place`)
        }
      })

      const recover = Effect.fn("AgentBackups.recover")(function* (workspace: OrganizationId) {
        if (recovered.has(workspace)) return
        yield* Effect.catchTags(restoreNewest(workspace), {
          // Nothing to recover, or somebody is writing it just now.
          NoCurrentAgent: () => Effect.void,
          WorkspaceConflict: () => Effect.void
        })
        recovered.add(workspace)
      })

      return AgentBackups.of({
        keeping: (workspace, agent, content) => kept(workspace, agent, content, ".yml"),
        recover
      })
    })
  )
}

const most = 10

const unfit = ".unfit.yml"

const directoryOf = (agent: AgentId): WorkspacePath => WorkspacePath.make(`backups/${agent}`)

/** Names of files have no colons everywhere. */
const nameOf = (time: number): string => new Date(time).toISOString().replaceAll(":", "-")

/** Epoch milliseconds; undefined for a file that somebody else has put there. */
const timeOf = (path: WorkspacePath): number | undefined => {
  const [, date, hour, minute, rest] =
    /\/(\d{4}-\d\d-\d\dT)(\d\d)-(\d\d)-(\d\d\.\d{3}Z)(?:\.unfit)?\.yml$/.exec(path) ?? []
  return date === undefined ? undefined : Date.parse(`${date}${hour}:${minute}:${rest}`)
}

/** A model that is gone from the catalogue is no reason to undo what the user wrote. */
const loads = ({ errors }: AgentReading): boolean =>
  errors.every(({ code, path }) => code === "unsupported_model" || path === "llm.provider")
