import {
  Cache,
  Cause,
  Duration,
  Effect,
  Exit,
  FileSystem,
  Layer,
  Option,
  Path,
  PubSub,
  Schedule,
  Schema,
  Semaphore,
  Stream
} from "effect"
import { createHash } from "node:crypto"
import { type FileChange, type WorkspaceChange, WorkspaceFiles } from "../../application/ports/files/WorkspaceFiles.ts"
import { Organizations } from "../../application/ports/storage/Organizations.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { WorkspaceConflict } from "../../domain/workspace/WorkspaceErrors.ts"
import { WorkspacePath } from "../../domain/workspace/WorkspacePath.ts"
import { type Entry, make as makeFiles, orDieAt } from "./Files.ts"
import { isJournal, make as makeJournal } from "./Journal.ts"

/** How often is looked for what others, such as an editor, have done. Not every file system tells of it by itself. */
const interval = Duration.millis(500)

/** A workspace that was used since the start. */
interface Workspace {
  readonly id: OrganizationId
  readonly root: string
  /** One at a time: what is seen of a workspace is never the half of a change. */
  readonly alone: Semaphore.Semaphore
  /** Whether no change is unfinished. */
  settled: boolean
  /** The signatures of its files as they were looked at last. */
  seen: ReadonlyMap<string, string>
  /** Whether the last look failed: that is logged once. */
  failing: boolean
}

/**
 * Workspaces as directories below `workspaces` in a directory that only this process writes to, besides people: they may
 * edit the files, so what is on the disk holds, always. The version of a file is the digest of its content. A disk that
 * fails is a defect that names the file.
 */
export const layer = (
  directory: string
): Layer.Layer<WorkspaceFiles, never, Organizations | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    WorkspaceFiles,
    Effect.gen(function* () {
      const system = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const organizations = yield* Organizations
      const files = yield* makeFiles
      const journal = yield* makeJournal
      const changes = yield* PubSub.unbounded<WorkspaceChange>()

      const base = yield* Effect.gen(function* () {
        const place = path.resolve(directory, "workspaces")
        yield* system.makeDirectory(place, { recursive: true, mode: 0o700 })
        return yield* system.realPath(place)
      }).pipe(orDieAt(directory))

      const look = (root: string) =>
        files.list(root, "", (name) => !isJournal(name)).pipe(Effect.map(signatures), orDieAt(root))

      const inUse: Array<Workspace> = []

      const opened = yield* Cache.makeWith(
        Effect.fnUntraced(function* (id: OrganizationId) {
          const organization = yield* organizations.findById(id)
          if (Option.isNone(organization)) return yield* Effect.die(new Error(`no organization ${id}`))
          const root = path.join(base, organization.value.name)
          yield* journal.settle(root)
          const alone = yield* Semaphore.make(1)
          const workspace = { id, root, alone, settled: true, seen: yield* look(root), failing: false }
          inUse.push(workspace)
          return workspace
        }, Effect.uninterruptible),
        {
          // One that is forgotten would be there twice.
          capacity: Number.POSITIVE_INFINITY,
          timeToLive: (exit) => (Exit.isSuccess(exit) ? Duration.infinity : Duration.zero)
        }
      )

      /** Does something with a settled workspace while nobody else does. */
      const using = <A, E>(id: OrganizationId, run: (workspace: Workspace) => Effect.Effect<A, E>) =>
        Effect.flatMap(Cache.get(opened, id), (workspace) =>
          workspace.alone.withPermit(
            Effect.suspend(() =>
              workspace.settled ? run(workspace) : Effect.andThen(settle(workspace), run(workspace))
            )
          )
        )

      const settle = (workspace: Workspace) =>
        journal
          .settle(workspace.root)
          .pipe(Effect.andThen(Effect.sync(() => (workspace.settled = true))), Effect.uninterruptible)

      const read = ({ root }: Workspace, name: WorkspacePath) =>
        isJournal(name)
          ? Effect.succeedNone
          : files
              .read(root, name)
              .pipe(
                Effect.map(Option.map((file) => ({ ...file, path: name, version: versionOf(file.content) }))),
                orDieAt(path.join(root, name))
              )

      const commit = (workspace: Workspace, wanted: ReadonlyArray<FileChange>) =>
        Effect.gen(function* () {
          for (const { basedOn, path: name } of wanted) {
            if (isJournal(name)) return yield* Effect.die(new Error(`${name} is reserved`))
            if (basedOn === undefined) continue
            const found = Option.getOrNull(yield* read(workspace, name))
            if ((found?.version ?? null) !== basedOn) return yield* new WorkspaceConflict({ path: name })
          }
          yield* journal.parentOf(base, path.relative(base, path.join(workspace.root, "file")))
          workspace.settled = false
          yield* journal.commit(workspace.root, wanted)
          workspace.settled = true
          yield* notice(workspace, new Set(wanted.map(({ path }) => path)))
        }).pipe(Effect.uninterruptible)

      /** Looks at the files, and tells of those that are not as they were seen last, or of all if it is not told which. */
      const notice = Effect.fnUntraced(function* (workspace: Workspace, only?: ReadonlySet<string>) {
        const now = yield* look(workspace.root)
        const names = new Set([...workspace.seen.keys(), ...now.keys()])
        const changed = [...names].filter(
          (name) => workspace.seen.get(name) !== now.get(name) && (only === undefined || only.has(name))
        )
        const seen = new Map(workspace.seen)
        for (const name of changed) {
          const signature = now.get(name)
          if (signature === undefined) seen.delete(name)
          else seen.set(name, signature)
        }
        workspace.seen = seen
        const paths = changed.filter(isWorkspacePath)
        if (paths.length > 0) yield* PubSub.publish(changes, { workspace: workspace.id, paths })
      })

      const watch = (workspace: Workspace) =>
        using(workspace.id, (workspace) => notice(workspace)).pipe(
          Effect.andThen(Effect.sync(() => (workspace.failing = false))),
          Effect.catchCause((cause) => {
            if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
            const log = workspace.failing ? Effect.void : Effect.logWarning("A workspace cannot be watched.", cause)
            workspace.failing = true
            return log
          })
        )

      yield* Effect.suspend(() => Effect.forEach([...inUse], watch, { discard: true })).pipe(
        Effect.repeat(Schedule.spaced(interval)),
        Effect.forkScoped
      )

      return WorkspaceFiles.of({
        root: (id) => Effect.map(Cache.get(opened, id), ({ root }) => root),
        read: (id, name) => using(id, (workspace) => read(workspace, name)),
        list: (id, directory) =>
          using(
            id,
            Effect.fnUntraced(function* (workspace) {
              const { root } = workspace
              const entries = yield* files.list(root, directory, (name) => !isJournal(name)).pipe(orDieAt(root))
              const found = yield* Effect.forEach(entries.map(({ path }) => path).filter(isWorkspacePath), (name) =>
                read(workspace, name)
              )
              return found.flatMap((file) => {
                if (Option.isNone(file)) return []
                const { content: _, ...listed } = file.value
                return [listed]
              })
            })
          ),
        commit: (id, wanted) => using(id, (workspace) => commit(workspace, wanted)),
        changes: Stream.fromPubSub(changes)
      })
    })
  )

const isWorkspacePath = Schema.is(WorkspacePath)

const versionOf = (content: Uint8Array): string => createHash("sha256").update(content).digest("base64url")

const signatures = (entries: ReadonlyArray<Entry>): ReadonlyMap<string, string> =>
  new Map(entries.map(({ path, signature }) => [path, signature]))
