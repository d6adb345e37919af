import { Effect, FileSystem, Option, Path, type PlatformError, Predicate } from "effect"

/** Nothing is there, whatever of the way to it is missing, too long or no directory. */
const absent: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR", "ELOOP", "ENAMETOOLONG"])

const isAbsent = ({ reason: { cause } }: PlatformError.PlatformError): boolean =>
  Predicate.hasProperty(cause, "code") && absent.has(cause.code)

/** None where there is nothing. */
export const unlessAbsent = <A, R>(
  effect: Effect.Effect<A, PlatformError.PlatformError, R>
): Effect.Effect<Option.Option<A>, PlatformError.PlatformError, R> =>
  Effect.catchIf(Effect.map(effect, Option.some), isAbsent, () => Effect.succeedNone)

/** No caller can mend a disk that fails. What the system says of an open file does not tell which it is. */
export const orDieAt =
  (place: string) =>
  <A, R>(effect: Effect.Effect<A, PlatformError.PlatformError, R>): Effect.Effect<A, never, R> =>
    Effect.catch(effect, (error) => Effect.die(new Error(`${place}: ${reasonOf(error)}`, { cause: error })))

/** The system's own words, where there are some: "ENOSPC: no space left on device, write". */
const reasonOf = ({ message, reason: { cause } }: PlatformError.PlatformError): string =>
  cause instanceof Error ? cause.message : message

export interface ReadFile {
  readonly content: Uint8Array
  /** Epoch milliseconds. */
  readonly lastModified: number
}

/** A regular file below a root that itself is no link. */
export interface Entry {
  /** Below the root, with `/`. */
  readonly path: string
  /** Differs whenever the file was replaced or, as far as its time and size tell, changed. */
  readonly signature: string
}

/**
 * Reading without following links, and never of anything but regular files: to open a pipe would wait for its writer.
 * `root` is a path without links.
 */
export const make = Effect.gen(function* () {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path

  /** Whether the way to it, itself included, has no link. */
  const isReal = (place: string) => Effect.map(unlessAbsent(files.realPath(place)), Option.contains(place))

  /** A regular file, or its beginning of so many bytes; none where there is none. */
  const read = Effect.fnUntraced(function* (root: string, name: string, most = Number.POSITIVE_INFINITY) {
    const place = path.join(root, name)
    if (!(yield* isReal(place)) || (yield* files.lstat(place)).type !== "File") return Option.none<ReadFile>()
    const file = yield* files.open(place, { noFollow: true })
    const { mtime, type } = yield* file.stat
    if (type !== "File") return Option.none<ReadFile>()
    const parts: Array<Uint8Array> = []
    for (let length = 0; length < most;) {
      const part = yield* file.readAlloc(Math.min(portion, most - length))
      if (Option.isNone(part)) break
      parts.push(part.value)
      length += part.value.length
    }
    return Option.some({ content: new Uint8Array(Buffer.concat(parts)), lastModified: epoch(mtime) })
  }, Effect.scoped)

  /** Every regular file below a directory, or so many; none if it is none, or can be reached by a link only. */
  const list = Effect.fnUntraced(function* (
    root: string,
    directory: string,
    isWanted: (path: string) => boolean,
    most = Number.POSITIVE_INFINITY
  ) {
    const found: Array<Entry> = []
    const start = path.join(root, directory)
    if (!(yield* isReal(start))) return found
    const pending = [directory]
    for (let each = pending.pop(); each !== undefined && found.length < most; each = pending.pop()) {
      const entries = yield* unlessAbsent(files.readDirectoryEntries(path.join(root, each)))
      for (const { name, type } of Option.getOrElse(entries, () => [])) {
        const below = each === "" ? name : `${each}/${name}`
        if (!isWanted(below)) continue
        if (type === "Directory") pending.push(below)
        if (type !== "File" || found.length >= most) continue
        const info = yield* unlessAbsent(files.lstat(path.join(root, below)))
        if (Option.isNone(info) || info.value.type !== "File") continue
        const { ino, mtime, size } = info.value
        found.push({
          path: below,
          signature: `${Option.getOrElse(ino, () => 0n)} ${epoch(mtime)} ${String(size)}`
        })
      }
    }
    return found.sort((one, other) => (one.path < other.path ? -1 : 1))
  })

  return { isReal, read, list }
})

export type Files = Effect.Success<typeof make>

const portion = 64 * 1024

const epoch = (time: Option.Option<Date>): number => Option.match(time, { onNone: () => 0, onSome: Number })
