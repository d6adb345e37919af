import { Effect, Option } from "effect"
import { absolutePath, allows, type FileRules, joinedPath, pathBelow } from "../../domain/resource/FileRules.ts"
import { mimeTypeOf } from "../../domain/resource/MimeTypes.ts"
import { fileUri, pathOfFileUri, type Resource } from "../../domain/resource/Resource.ts"
import { mostRead, partOfBytes } from "../../domain/resource/ResourceContent.ts"
import { type HostFileContent, HostFiles } from "../ports/files/HostFiles.ts"
import { WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"
import { type FileTree, type ListedFile, workspaceTree } from "./FileTree.ts"
import type { ResourcePlace, ResourceProvider } from "./ResourceProvider.ts"

/** A directory, or a single file, that the agent's configuration names. */
interface Root {
  readonly path: string
  readonly tree: FileTree
}

/**
 * Files by their absolute paths (decisions 8): those below the roots that the agent's configuration names, as far as
 * its rules allow. A relative root begins at the agent's own directory. A root leads into the workspace or, on this
 * machine, into a directory of `AGENT_SOURCE_ROOTS`; that holds for an open service too, since whoever can change an
 * agent need not be whose machine it is.
 */
export const fileResources = Effect.gen(function* () {
  const files = yield* WorkspaceFiles
  const host = yield* HostFiles

  /** Those of each part of the configuration, with its rules. */
  const rootsOf = Effect.fnUntraced(function* ({ agent, workspace }: ResourcePlace) {
    if (agent === undefined || agent.config.filesystemResources.length === 0) return []
    const home = yield* files.root(workspace)
    const inWorkspace = workspaceTree(files, workspace, home)
    const directory = absolutePath(joinedPath(home, agent.file.path), "..")
    return agent.config.filesystemResources.map(({ paths, ...rules }) => ({
      rules,
      roots: paths.map((named): Root => {
        const path = absolutePath(directory, named)
        return { path, tree: pathBelow(home, path) === undefined ? host : inWorkspace }
      })
    }))
  })

  const listed = Effect.fnUntraced(function* (roots: ReadonlyArray<Root>, rules: FileRules) {
    const found: Array<Resource> = []
    for (const { path: root, tree } of roots) {
      const left = rules.maxFiles - found.length
      if (left <= 0) break
      const here = yield* tree.list(root, { ...rules, maxFiles: left })
      found.push(...here.map((file) => resourceOf(joinedPath(root, file.path), file)))
    }
    return found
  })

  const list = Effect.fnUntraced(function* (place: ResourcePlace) {
    const found = new Map<string, Resource>()
    for (const { roots, rules } of yield* rootsOf(place)) {
      for (const resource of yield* listed(roots, rules)) found.set(resource.uri, resource)
    }
    return [...found.values()]
  })

  /** At most so many bytes of a file, by the first root that has it. */
  const open = Effect.fnUntraced(function* (place: ResourcePlace, uri: string, most: number) {
    const path = pathOfFileUri(uri)
    if (path === undefined || absolutePath("/", path) !== path) return Option.none<HostFileContent>()
    for (const { roots, rules } of yield* rootsOf(place)) {
      for (const { path: root, tree } of roots) {
        const below = pathBelow(root, path)
        if (below === undefined || !allows(rules, root, below)) continue
        const found = yield* tree.read(root, below, most)
        if (Option.isSome(found)) return found
      }
    }
    return Option.none<HostFileContent>()
  })

  const provider: ResourceProvider = {
    scheme: "fs",
    list,
    exists: (place, uri) => Effect.map(open(place, uri, 0), Option.isSome),
    read: (place, uri) =>
      Effect.map(
        open(place, uri, mostRead),
        Option.map(({ bytes, size }) => {
          const name = nameOf(uri)
          return { parts: [partOfBytes({ uri, name, mimeType: mimeTypeOf(name), bytes, size })] }
        })
      )
  }
  return provider
})

const resourceOf = (path: string, { lastModified, size }: ListedFile): Resource => {
  const name = nameOf(path)
  const mimeType = mimeTypeOf(name)
  return {
    uri: fileUri(path),
    name,
    ...(mimeType === undefined ? {} : { mimeType }),
    source: "internal",
    ...(size === undefined ? {} : { size }),
    lastModified: new Date(lastModified).toISOString()
  }
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1)
