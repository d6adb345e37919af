import { Effect, Layer, Option, Predicate } from "effect"
import { constants, type Stats } from "node:fs"
import { type FileHandle, lstat, open, readdir, readlink, realpath, stat } from "node:fs/promises"
import { basename, join } from "node:path"
import { type HostFile, type HostFileContent, HostFiles } from "../../application/ports/files/HostFiles.ts"
import { allows, type FileRules, isHidden, pathBelow } from "../../domain/resource/FileRules.ts"

export interface HostFilesOptions {
  /** The directories of `AGENT_SOURCE_ROOTS`. */
  readonly roots: ReadonlyArray<string>
  /** Directories of the service itself, wherever they lie. */
  readonly except: ReadonlyArray<string>
}

/** A directory can have more names than anybody wants to see. What lies beyond is not listed. */
const mostVisited = 50_000

/** No tree that people make is deeper. */
const deepest = 64

export const layer = (options: HostFilesOptions) =>
  Layer.sync(HostFiles, () =>
    HostFiles.of({
      list: Effect.fn("HostFiles.list")((root, rules) =>
        Effect.map(
          whenThere((signal) => listed(options, root, rules, signal)),
          Option.getOrElse((): ReadonlyArray<HostFile> => [])
        )
      ),
      read: Effect.fn("HostFiles.read")((root, path, most) => whenThere(() => contentOf(options, root, path, most)))
    })
  )

/** The root with its links resolved; undefined unless it is allowed. */
const resolved = async ({ except, roots }: HostFilesOptions, root: string): Promise<string | undefined> => {
  const real = await realpath(root)
  const within = (directories: ReadonlyArray<string>) =>
    Promise.all(directories.map(async (directory) => pathBelow(await realOrSame(directory), real)))
  const allowed = (await within(roots)).some((below) => below !== undefined && !isHidden(below))
  const denied = (await within(except)).some((below) => below !== undefined)
  return allowed && !denied ? real : undefined
}

const realOrSame = (directory: string): Promise<string> => realpath(directory).catch(() => directory)

/** Nobody may see these, whatever lies around them: a directory of the service can lie below a root as well. */
const isDenied = async ({ except }: HostFilesOptions, real: string): Promise<boolean> => {
  const own = await Promise.all(except.map(realOrSame))
  return own.some((directory) => pathBelow(directory, real) !== undefined)
}

const listed = async (
  options: HostFilesOptions,
  root: string,
  rules: FileRules,
  signal: AbortSignal
): Promise<ReadonlyArray<HostFile>> => {
  const real = await resolved(options, root)
  if (real === undefined) return []
  const found: Array<HostFile> = []
  let visited = 0

  const add = async (path: string) => {
    const stats = await lstat(join(real, path)).catch(ifAbsent)
    if (stats?.isFile() === true) found.push({ path, size: stats.size, lastModified: timeOf(stats) })
  }

  const visit = async (directory: string, depth: number): Promise<void> => {
    const place = join(real, directory)
    const entries = await readdir(place, { withFileTypes: true }).catch(ifAbsent)
    // It may have become a link to elsewhere meanwhile.
    if (entries === undefined || (await realpath(place)) !== place || (await isDenied(options, place))) return
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (found.length >= rules.maxFiles || ++visited > mostVisited || signal.aborted) return
      const path = directory === "" ? entry.name : `${directory}/${entry.name}`
      if (entry.isFile() && allows(rules, basename(root), path)) await add(path)
      else if (entry.isDirectory() && !isHidden(entry.name) && depth < Math.min(rules.maxDepth, deepest)) {
        await visit(path, depth + 1)
      }
    }
  }

  const stats = await lstat(real)
  if (stats.isDirectory()) await visit("", 1)
  else if (allows(rules, root, "")) await add("")
  return found
}

const contentOf = async (
  options: HostFilesOptions,
  root: string,
  path: string,
  most: number
): Promise<HostFileContent | undefined> => {
  const real = await resolved(options, root)
  if (real === undefined || isHidden(path)) return undefined
  const place = path === "" ? real : join(real, path)
  // To open a device can be enough to move it.
  if (!(await lstat(place)).isFile() || (await isDenied(options, place))) return undefined
  // What is a pipe by now does not block; what is a link by now does not open.
  const handle = await open(place, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const stats = await handle.stat()
    if (!stats.isFile() || !(await liesAt(handle, stats, place))) return undefined
    return { bytes: await beginning(handle, stats, most), size: stats.size, lastModified: timeOf(stats) }
  } finally {
    await handle.close()
  }
}

/** Whether the file that was opened is at this place, and no directory of the place was a link when it was opened. */
const liesAt = async (handle: FileHandle, opened: Stats, place: string): Promise<boolean> => {
  const descriptor = `/proc/self/fd/${handle.fd}`
  const known = await stat(descriptor).catch(ifAbsent)
  if (known !== undefined && isSame(known, opened)) return (await readlink(descriptor)) === place
  // A system that does not say: look again.
  return (await realpath(place)) === place && isSame(await lstat(place), opened)
}

const isSame = (a: Stats, b: Stats): boolean => a.dev === b.dev && a.ino === b.ino

/** A file may shrink while it is read. */
const beginning = async (handle: FileHandle, { size }: Stats, most: number): Promise<Uint8Array> => {
  const bytes = Buffer.alloc(Math.min(size, most))
  let length = 0
  while (length < bytes.length) {
    const { bytesRead } = await handle.read(bytes, length, bytes.length - length, length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  return bytes.subarray(0, length)
}

const timeOf = ({ mtimeMs }: Stats): number => Math.round(mtimeMs)

/** What the system says of a path that leads to nothing that may be read. */
const absent: ReadonlySet<unknown> = new Set([
  "EACCES",
  "EINVAL",
  "EISDIR",
  "ELOOP",
  "ENAMETOOLONG",
  "ENODEV",
  "ENOENT",
  "ENOTDIR",
  "ENXIO",
  "EPERM",
  "ERR_INVALID_ARG_VALUE"
])

const isAbsent = (error: unknown): boolean => Predicate.hasProperty(error, "code") && absent.has(error.code)

const ifAbsent = (error: unknown): undefined => {
  if (!isAbsent(error)) throw error
}

/** A disk that fails is a defect. */
const whenThere = <A>(read: (signal: AbortSignal) => Promise<A | undefined>): Effect.Effect<Option.Option<A>> =>
  Effect.map(
    Effect.promise((signal) => read(signal).catch(ifAbsent)),
    Option.fromUndefinedOr
  )
