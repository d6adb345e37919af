import { Effect, FileSystem, Option, Path, Schema } from "effect"
import { rmdir } from "node:fs/promises"
import { environmentPath, WorkspacePath } from "../../domain/workspace/WorkspacePath.ts"
import { orDieAt, unlessAbsent } from "./Files.ts"

/**
 * How several files of a workspace change at once, whatever dies meanwhile: everything is written into a hidden
 * directory first, and a rename of that directory is what makes it hold. From then on the changes are carried out, after
 * a crash by whoever uses the workspace next; before, nothing has happened.
 */
const journal = ".journal"
const draft = ".journal.new"

/** What belongs to the journal is no file of the workspace. */
export const isJournal = (path: string): boolean => /^\.journal(?:\.new)?(?:\/|$)/.test(path)

export interface Write {
  readonly path: WorkspacePath
  /** Null removes the file. */
  readonly content: Uint8Array | null
}

/** `staged` is the name of the new content in the journal; null removes the file. */
const Manifest = Schema.fromJsonString(
  Schema.Array(Schema.Struct({ path: WorkspacePath, staged: Schema.NullOr(Schema.String) }))
)
type Manifest = typeof Manifest.Type

const manifestName = "manifest.json"

export const make = Effect.gen(function* () {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path

  /** Of a directory: its entries. What was renamed into it would not survive a loss of power otherwise. */
  const sync = (place: string) =>
    Effect.scoped(Effect.flatMap(files.open(place), (file) => file.sync)).pipe(orDieAt(place))

  const write = (place: string, content: Uint8Array, mode: number) =>
    Effect.gen(function* () {
      const file = yield* files.open(place, { flag: "w", mode })
      yield* file.writeAll(content)
      yield* file.sync
    }).pipe(Effect.scoped, orDieAt(place))

  const typeOf = (place: string) =>
    unlessAbsent(files.lstat(place)).pipe(
      Effect.map((info) => (Option.isSome(info) ? info.value.type : undefined)),
      orDieAt(place)
    )

  /** Whether there is a file to remove: not what a link leads to, and no directory. */
  const isFile = Effect.fnUntraced(function* (place: string) {
    const real = yield* unlessAbsent(files.realPath(place)).pipe(orDieAt(place))
    return Option.contains(real, place) && (yield* typeOf(place)) === "File"
  })

  /** The directory of a file, made where it is missing; dies where a link or a file is in the way. */
  const parentOf = Effect.fnUntraced(function* (root: string, name: string) {
    let parent = root
    for (const segment of name.split("/").slice(0, -1)) {
      const place = path.join(parent, segment)
      const type = yield* typeOf(place)
      if (type === undefined) {
        yield* files.makeDirectory(place, { mode: 0o700 }).pipe(orDieAt(place))
        yield* sync(parent)
      } else if (type !== "Directory") {
        return yield* Effect.die(new Error(`${place}: it is no directory, so there cannot be a file in it`))
      }
      parent = place
    }
    return parent
  })

  /** Whether everything could be carried out: once the changes hold there is no way back. */
  const prepare = Effect.fnUntraced(function* (root: string, writes: ReadonlyArray<Write>) {
    for (const { content, path: name } of writes) {
      const place = path.join(root, name)
      if (content === null && !(yield* isFile(place))) continue
      const parent = content === null ? path.dirname(place) : yield* parentOf(root, name)
      if ((yield* typeOf(place)) === "Directory") {
        return yield* Effect.die(new Error(`${place}: it is a directory, and not a file`))
      }
      yield* files.access(parent, { writable: true }).pipe(orDieAt(parent))
    }
  })

  const removeWhole = (place: string) => files.remove(place, { recursive: true, force: true }).pipe(orDieAt(place))

  /** Carries out what the manifest says; what was done before is passed over. */
  const carryOut = Effect.fnUntraced(function* (root: string, manifest: Manifest) {
    const parents = new Set<string>()
    for (const { path: name, staged } of manifest) {
      const place = path.join(root, name)
      if (staged === null) {
        if (!(yield* isFile(place))) continue
        yield* files.remove(place).pipe(orDieAt(place))
        parents.add(path.dirname(place))
      } else {
        parents.add(yield* parentOf(root, name))
        yield* unlessAbsent(files.rename(path.join(root, journal, staged), place)).pipe(orDieAt(place))
      }
    }
    for (const parent of parents) yield* sync(parent)
    const record = path.join(root, journal, manifestName)
    yield* files.remove(record).pipe(orDieAt(record))
    yield* removeWhole(path.join(root, journal))
    yield* sync(root)
    for (const { path: name, staged } of manifest) if (staged === null) yield* prune(root, name)
  })

  /** Removes the directories that a removed file has left empty. What is not empty, or not there, stays as it is. */
  const prune = (root: string, name: string) =>
    Effect.gen(function* () {
      const segments = name.split("/").slice(0, -1)
      for (let depth = segments.length; depth > 0; depth--) {
        yield* Effect.tryPromise(() => rmdir(path.join(root, ...segments.slice(0, depth))))
      }
    }).pipe(Effect.ignore)

  /** Finishes what a process that died, or a disk that failed, has left. */
  const settle = Effect.fnUntraced(function* (root: string) {
    const place = path.join(root, journal)
    if ((yield* typeOf(place)) === "Directory") {
      const record = path.join(place, manifestName)
      const text = yield* unlessAbsent(files.readFileString(record)).pipe(orDieAt(record))
      // Without its manifest everything of it was carried out.
      if (Option.isNone(text)) yield* removeWhole(place)
      else yield* carryOut(root, yield* Effect.orDie(decodeManifest(text.value)))
    }
    if ((yield* typeOf(path.join(root, draft))) !== undefined) yield* removeWhole(path.join(root, draft))
  })

  /** All or nothing. The workspace has to be settled, and nobody else may write to it meanwhile. */
  const commit = Effect.fnUntraced(function* (root: string, writes: ReadonlyArray<Write>) {
    yield* prepare(root, writes)
    const place = path.join(root, draft)
    const manifest: Array<Manifest[number]> = []
    yield* Effect.gen(function* () {
      yield* files.makeDirectory(place, { mode: 0o700 }).pipe(orDieAt(place))
      for (const { content, path: name } of writes) {
        const staged = content === null ? null : `${manifest.length}`
        if (content !== null && staged !== null) yield* write(path.join(place, staged), content, modeOf(name))
        manifest.push({ path: name, staged })
      }
      const record = new TextEncoder().encode(yield* Effect.orDie(encodeManifest(manifest)))
      yield* write(path.join(place, manifestName), record, 0o600)
      yield* sync(place)
      yield* files.rename(place, path.join(root, journal)).pipe(orDieAt(place))
    }).pipe(Effect.onError(() => Effect.ignoreCause(removeWhole(place))))
    yield* sync(root)
    yield* carryOut(root, manifest)
  })

  return { parentOf, settle, commit }
})

const decodeManifest = Schema.decodeEffect(Manifest)
const encodeManifest = Schema.encodeEffect(Manifest)

/** Keys are nobody's but the owner's; of the rest the owner's umask decides. */
const modeOf = (name: WorkspacePath): number => (name === environmentPath ? 0o600 : 0o666)
