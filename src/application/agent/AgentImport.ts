import { Effect, Option, Schema } from "effect"
import type { AgentId } from "../../domain/agent/Agent.ts"
import { AgentRefused } from "../../domain/agent/AgentErrors.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { WorkspacePath } from "../../domain/workspace/WorkspacePath.ts"
import {
  type AgentSource,
  AgentSources,
  SourceNotFound,
  SourceTooLarge,
  sourceLimits as most
} from "../ports/files/AgentSources.ts"
import { WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"

/**
 * Files that a caller names by an absolute path (decisions 3): of the workspace itself, or else of a directory of
 * `AGENT_SOURCE_ROOTS`. Hidden files and `.env*` are never among them.
 */
export const makeSourceReader = Effect.gen(function* () {
  const files = yield* WorkspaceFiles
  const sources = yield* AgentSources

  const fromWorkspace = Effect.fnUntraced(function* (workspace: OrganizationId, below: string, sourcePath: string) {
    const unknown = new SourceNotFound({ path: sourcePath })
    const place = decodePath(below)
    if (Option.isNone(place) || isHidden(below)) return yield* unknown
    const file = yield* files.read(workspace, place.value)
    if (Option.isSome(file)) {
      const { content } = file.value
      if (content.length > most.fileBytes) return yield* new SourceTooLarge({ limit: "1 MB in a file" })
      return { isDirectory: false, files: new Map([[lastOf(below), content]]), below: place.value }
    }
    const listed = (yield* files.list(workspace, place.value)).filter(({ path }) => !isHidden(path))
    if (listed.length === 0) return yield* unknown
    if (listed.length > most.files) return yield* new SourceTooLarge({ limit: `${most.files} files` })
    const found = new Map<string, Uint8Array>()
    let bytes = 0
    for (const { path } of listed) {
      const read = yield* files.read(workspace, path)
      // Removed since it was listed.
      if (Option.isNone(read)) continue
      const { content } = read.value
      bytes += content.length
      if (content.length > most.fileBytes) return yield* new SourceTooLarge({ limit: "1 MB in a file" })
      if (bytes > most.bytes) return yield* new SourceTooLarge({ limit: "8 MB of files" })
      found.set(path.slice(below.length + 1), content)
    }
    return { isDirectory: true, files: found, below: place.value }
  })

  return Effect.fnUntraced(function* (
    workspace: OrganizationId,
    sourcePath: string
  ): Effect.fn.Return<SourceFiles, SourceNotFound | SourceTooLarge> {
    const root = yield* files.root(workspace)
    const below = pathBelow(root, sourcePath)
    return below === undefined
      ? { ...(yield* sources.read(sourcePath)), below }
      : yield* fromWorkspace(workspace, below, sourcePath)
  })
})

export interface SourceFiles extends AgentSource {
  /** Where it is in the workspace, if it is there. */
  readonly below: WorkspacePath | undefined
}

const decodePath = Schema.decodeUnknownOption(WorkspacePath)

const isHidden = (path: string): boolean => path.split("/").some((segment) => segment.startsWith("."))

const lastOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1)

/** The rest of an absolute path below a directory, `.` and `..` resolved; undefined if it leads elsewhere. */
const pathBelow = (root: string, path: string): string | undefined => {
  if (!path.startsWith("/")) return undefined
  const [within, wanted] = [segmentsOf(root), segmentsOf(path)]
  return within.every((segment, at) => wanted[at] === segment) ? wanted.slice(within.length).join("/") : undefined
}

const segmentsOf = (path: string): ReadonlyArray<string> => {
  const segments: Array<string> = []
  for (const segment of path.split("/")) {
    if (segment === "..") segments.pop()
    else if (segment !== "" && segment !== ".") segments.push(segment)
  }
  return segments
}

/**
 * Which file of a source is the agent's configuration: the one that is named, the only one there is, or one by the
 * name of the agent or `agent`.
 */
export const mainOf = (
  { files, isDirectory }: AgentSource,
  id: AgentId,
  named: string | undefined
): Effect.Effect<string, AgentRefused> => {
  const refused = (path: ReadonlyArray<string>, message: string) =>
    Effect.fail(new AgentRefused({ code: "agent_validation_error", path, message }))
  const names = [...files.keys()]
  const [only] = names
  if (!isDirectory) {
    return only === undefined ? refused(["sourcePath"], "There is no file.") : Effect.succeed(only)
  }
  if (named !== undefined) {
    return files.has(named)
      ? Effect.succeed(named)
      : refused(["metadata", "main"], `The directory has no file ${JSON.stringify(named)}.`)
  }
  const configurations = names.filter((name) => /^[^/]+\.ya?ml$/.test(name))
  const [first, ...others] = configurations
  if (first !== undefined && others.length === 0) return Effect.succeed(first)
  const usual = [`${id}.yml`, `${id}.yaml`, "agent.yml", "agent.yaml"].find((name) => files.has(name))
  return usual === undefined
    ? refused(
        ["metadata", "main"],
        "Name the configuration file of the directory: " +
          (first === undefined ? "no .yml file stands at its top." : `it has ${configurations.join(", ")}.`)
      )
    : Effect.succeed(usual)
}
