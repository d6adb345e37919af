import { NodePath } from "@effect/platform-node"
import { Effect, type FileSystem, Layer, Option } from "effect"
import * as WorkspaceFilesOnDisk from "../../src/adapters/filesystem/WorkspaceFilesOnDisk.ts"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { type FileChange, WorkspaceFiles } from "../../src/application/ports/files/WorkspaceFiles.ts"
import { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { WorkspacePath } from "../../src/domain/workspace/WorkspacePath.ts"
import { organization } from "../conformance/Samples.ts"

/** One workspace in a directory, as it is before a commit and after it. */
export const workspace = OrganizationId.make("acme")

export type Tree = Readonly<Record<string, string>>

export const before: Tree = { ".env": "A_TOKEN=old\n", "agents/a/a.yml": "old", "gone/deep/x": "old", keep: "old" }

export const after: Tree = {
  ".env": "A_TOKEN=new\n".repeat(1_000),
  "agents/a/a.yml": "new",
  "agents/b/deep/b.yml": "new",
  keep: "old"
}

const change = (path: string, content: string | null): FileChange => ({
  path: WorkspacePath.make(path),
  content: content === null ? null : new TextEncoder().encode(content),
  basedOn: undefined
})

/** What leads from one to the other. */
export const changes: ReadonlyArray<FileChange> = [
  change("agents/a/a.yml", "new"),
  change("gone/deep/x", null),
  change(".env", after[".env"] ?? ""),
  change("agents/b/deep/b.yml", "new")
]

export const create: ReadonlyArray<FileChange> = Object.entries(before).map(([path, text]) => change(path, text))

/** A process that has the directory. */
export const opened = (directory: string, files: Layer.Layer<FileSystem.FileSystem>) =>
  Layer.fresh(WorkspaceFilesOnDisk.layer(directory)).pipe(
    Layer.provideMerge(
      Layer.effectDiscard(
        Effect.flatMap(Organizations, (organizations) =>
          organizations.insert(organization({ id: workspace, name: "acme" }))
        )
      )
    ),
    Layer.provide(Layer.fresh(InMemoryLive.layer)),
    Layer.provide([files, NodePath.layer])
  )

export const commit = (changes: ReadonlyArray<FileChange>) =>
  Effect.flatMap(WorkspaceFiles, (files) => files.commit(workspace, changes))

/** The text of every file. */
export const tree = Effect.gen(function* () {
  const files = yield* WorkspaceFiles
  const listed = yield* files.list(workspace, "")
  const entries = yield* Effect.forEach(listed, ({ path }) =>
    Effect.map(files.read(workspace, path), (file) => [path, new TextDecoder().decode(Option.getOrThrow(file).content)])
  )
  const found: Tree = Object.fromEntries(entries)
  return found
})
