import { Effect, Option, Schema } from "effect"
import { allows, type FileRules, isHidden, joinedPath, pathBelow } from "../../domain/resource/FileRules.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { WorkspacePath } from "../../domain/workspace/WorkspacePath.ts"
import type { HostFile, HostFileContent, HostFiles } from "../ports/files/HostFiles.ts"
import type { WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"

/** Where the files below a root are: on this machine (`HostFiles`), or in a workspace. By absolute paths. */
export interface FileTree {
  readonly list: (root: string, rules: FileRules) => Effect.Effect<ReadonlyArray<ListedFile>>
  readonly read: HostFiles["Service"]["read"]
}

/** The size of a file in a workspace is not known without reading it. */
export type ListedFile = Omit<HostFile, "size"> & Partial<Pick<HostFile, "size">>

/** The files of a workspace, whose directory is called `home`; on a server it is on no disk. */
export const workspaceTree = (files: WorkspaceFiles["Service"], workspace: OrganizationId, home: string): FileTree => {
  const read = Effect.fnUntraced(function* (root: string, path: string, most: number) {
    const place = placeOf(pathBelow(home, joinedPath(root, path)))
    if (Option.isNone(place) || isHidden(place.value)) return Option.none<HostFileContent>()
    return Option.map(yield* files.read(workspace, place.value), ({ content, lastModified }) => ({
      bytes: content.subarray(0, most),
      size: content.length,
      lastModified
    }))
  })

  const list = Effect.fnUntraced(function* (root: string, rules: FileRules) {
    const directory = pathBelow(home, root)
    const place = directory === "" ? directory : Option.getOrUndefined(placeOf(directory))
    if (place === undefined || isHidden(place)) return []
    const found = (yield* files.list(workspace, place)).flatMap(({ lastModified, path }) => {
      const below = pathBelow(root, joinedPath(home, path))
      return below === undefined || below === "" ? [] : [{ path: below, lastModified }]
    })
    if (found.length > 0) return found.filter(({ path }) => allows(rules, root, path)).slice(0, rules.maxFiles)
    const single = allows(rules, root, "") ? yield* read(root, "", 0) : Option.none()
    return Option.toArray(single).map(({ lastModified, size }) => ({ path: "", lastModified, size }))
  })

  return { list, read }
}

const placeOf = Option.liftPredicate(Schema.is(WorkspacePath))
