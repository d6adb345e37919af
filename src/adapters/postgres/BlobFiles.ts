import { Context, Effect, FileSystem, Option, Path, type PlatformError, Semaphore } from "effect"
import { StoreUnavailable } from "../../application/ports/storage/StoreUnavailable.ts"
import type { BlobId } from "../../domain/resource/Blob.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"

/**
 * The bytes of blobs as files, `<organization>/<aa>/<id>`, for a store that one process has to itself. A file is
 * complete before a row speaks of it, and goes after its row: what a crash leaves is a file without a row.
 */
export interface BlobFiles {
  /** One change at a time: no file is removed while a row for it is being made. */
  readonly exclusively: <A, E>(change: Effect.Effect<A, E>) => Effect.Effect<A, E>
  readonly write: (organization: OrganizationId, id: BlobId, bytes: Uint8Array) => Effect.Effect<void>
  readonly read: (organization: OrganizationId, id: BlobId) => Effect.Effect<Option.Option<Uint8Array>>
  readonly remove: (organization: OrganizationId, id: BlobId) => Effect.Effect<void>
  /** Removes whatever `keeps` does not name, of one directory at a time; gives how many files that were. */
  readonly sweep: <E>(
    keeps: (organization: OrganizationId, prefix: string) => Effect.Effect<ReadonlySet<string>, E>
  ) => Effect.Effect<number, E>
}

/** Undefined: the bytes are in rows, for any number of processes. A client that owns a directory brings it. */
export const CurrentBlobFiles = Context.Reference<BlobFiles | undefined>("gateway/postgres/BlobFiles", {
  defaultValue: () => undefined
})

/** Organizations' ids are the service's own, and fit for names of directories. */
export const make = Effect.fnUntraced(function* (directory: string) {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const turn = yield* Semaphore.make(1)

  const folderOf = (organization: OrganizationId, id: string) => path.join(directory, organization, id.slice(0, 2))
  const placeOf = (organization: OrganizationId, id: BlobId) => path.join(folderOf(organization, id), id)

  const sync = (file: string) => Effect.scoped(Effect.flatMap(files.open(file, { flag: "r" }), ({ sync }) => sync))

  const write = Effect.fnUntraced(function* (organization: OrganizationId, id: BlobId, bytes: Uint8Array) {
    const place = placeOf(organization, id)
    const there = yield* whenThere(files.stat(place))
    // A file gets its name when it is complete.
    if (Option.isSome(there)) return
    const folder = folderOf(organization, id)
    yield* files.makeDirectory(folder, { recursive: true, mode: 0o700 })
    const draft = `${place}.draft`
    yield* Effect.scoped(
      Effect.flatMap(files.open(draft, { flag: "w", mode: 0o600 }), (file) =>
        Effect.andThen(file.writeAll(bytes), file.sync)
      )
    )
    yield* files.rename(draft, place)
    // The directories may be new as well.
    for (const made of [folder, path.dirname(folder), directory, path.dirname(directory)]) yield* sync(made)
  })

  const namesIn = (folder: string) =>
    Effect.map(
      whenThere(files.readDirectory(folder)),
      Option.getOrElse((): Array<string> => [])
    )

  const sweep = Effect.fnUntraced(function* <E>(
    keeps: (organization: OrganizationId, prefix: string) => Effect.Effect<ReadonlySet<string>, E>
  ) {
    let removed = 0
    for (const organization of yield* failing(namesIn(directory))) {
      for (const prefix of yield* failing(namesIn(path.join(directory, organization)))) {
        const folder = path.join(directory, organization, prefix)
        removed += yield* turn.withPermit(
          Effect.gen(function* () {
            const names = yield* failing(namesIn(folder))
            const kept = yield* keeps(OrganizationId.make(organization), prefix)
            const left = names.filter((name) => !kept.has(name))
            yield* failing(Effect.forEach(left, (name) => files.remove(path.join(folder, name), { force: true })))
            return left.length
          })
        )
      }
    }
    return removed
  })

  const made: BlobFiles = {
    exclusively: (change) => turn.withPermit(change),
    write: (organization, id, bytes) => failing(write(organization, id, bytes)),
    read: (organization, id) => failing(whenThere(files.readFile(placeOf(organization, id)))),
    remove: (organization, id) => failing(files.remove(placeOf(organization, id), { force: true })),
    sweep
  }
  return made
})

/** A disk that fails or is full is a store that is away. */
const failing = <A>(effect: Effect.Effect<A, PlatformError.PlatformError>): Effect.Effect<A> =>
  Effect.catch(effect, (cause) => Effect.die(new StoreUnavailable({ cause })))

const whenThere = <A>(
  effect: Effect.Effect<A, PlatformError.PlatformError>
): Effect.Effect<Option.Option<A>, PlatformError.PlatformError> =>
  Effect.catchIf(Effect.map(effect, Option.some), isAbsent, () => Effect.succeed(Option.none<A>()))

const isAbsent = ({ reason }: PlatformError.PlatformError): boolean => reason._tag === "NotFound"
