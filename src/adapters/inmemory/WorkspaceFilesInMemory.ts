import { Clock, Effect, Layer, Option, PubSub, Stream } from "effect"
import {
  type FileChange,
  type WorkspaceChange,
  type WorkspaceFile,
  WorkspaceFiles
} from "../../application/ports/files/WorkspaceFiles.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { WorkspaceConflict } from "../../domain/workspace/WorkspaceErrors.ts"
import type { WorkspacePath } from "../../domain/workspace/WorkspacePath.ts"
import { State } from "./State.ts"

export const layer = Layer.effect(
  WorkspaceFiles,
  Effect.gen(function* () {
    const { organizations } = yield* State
    const workspaces = new Map<OrganizationId, Map<WorkspacePath, WorkspaceFile>>()
    const changes = yield* PubSub.unbounded<WorkspaceChange>()
    let lastVersion = 0

    const filesOf = (workspace: OrganizationId): ReadonlyMap<WorkspacePath, WorkspaceFile> =>
      workspaces.get(workspace) ?? new Map()

    const commit = Effect.fnUntraced(function* (workspace: OrganizationId, wanted: ReadonlyArray<FileChange>) {
      if (!organizations.has(workspace)) return yield* Effect.die(new Error(`no organization ${workspace}`))
      const lastModified = yield* Clock.currentTimeMillis
      const files = new Map(filesOf(workspace))
      for (const { basedOn, content, path } of wanted) {
        if (basedOn !== undefined && (files.get(path)?.version ?? null) !== basedOn) {
          return yield* new WorkspaceConflict({ path })
        }
        if (content === null) files.delete(path)
        else files.set(path, { path, content: content.slice(), version: `${++lastVersion}`, lastModified })
      }
      workspaces.set(workspace, files)
      yield* PubSub.publish(changes, { workspace, paths: wanted.map(({ path }) => path) })
    })

    return WorkspaceFiles.of({
      root: (workspace) =>
        Effect.suspend(() => {
          const organization = organizations.get(workspace)
          return organization === undefined
            ? Effect.die(new Error(`no organization ${workspace}`))
            : Effect.succeed(`/workspaces/${organization.name}`)
        }),
      read: (workspace, path) =>
        Effect.sync(() =>
          Option.map(Option.fromUndefinedOr(filesOf(workspace).get(path)), (file) => ({
            ...file,
            content: file.content.slice()
          }))
        ),
      list: (workspace, directory) =>
        Effect.sync(() =>
          [...filesOf(workspace).values()]
            .filter(({ path }) => directory === "" || path.startsWith(`${directory}/`))
            .map(({ lastModified, path, version }) => ({ path, version, lastModified }))
            .sort((one, other) => (one.path < other.path ? -1 : 1))
        ),
      commit,
      changes: Stream.fromPubSub(changes)
    })
  })
)
