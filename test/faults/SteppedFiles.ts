import { NodeFileSystem } from "@effect/platform-node"
import { Effect, FileSystem, Layer, PlatformError } from "effect"

/** What comes before each step that changes anything on the disk. A failure takes the step's place. */
export type BeforeStep = (step: string) => Effect.Effect<void, PlatformError.PlatformError>

/** The file system, seen step by step. A file is written in two halves, so that something can come between them. */
export const layer = (before: BeforeStep): Layer.Layer<FileSystem.FileSystem> =>
  Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (files): FileSystem.FileSystem => {
      const stepped = (place: string, file: FileSystem.File): FileSystem.File => ({
        [FileSystem.FileTypeId]: FileSystem.FileTypeId,
        stat: file.stat,
        seek: (offset, from) => file.seek(offset, from),
        read: (buffer, options) => file.read(buffer, options),
        readAlloc: (size, options) => file.readAlloc(size, options),
        truncate: (length) => file.truncate(length),
        write: (buffer) => file.write(buffer),
        sync: Effect.andThen(before(`sync ${place}`), file.sync),
        writeAll: (buffer) => {
          const half = buffer.length >> 1
          return before(`write ${place}`).pipe(
            Effect.andThen(file.writeAll(buffer.subarray(0, half))),
            Effect.andThen(before(`write the rest of ${place}`)),
            Effect.andThen(file.writeAll(buffer.subarray(half)))
          )
        }
      })
      return {
        ...files,
        makeDirectory: (path, options) =>
          Effect.andThen(before(`makeDirectory ${path}`), files.makeDirectory(path, options)),
        rename: (from, to) => Effect.andThen(before(`rename ${from} ${to}`), files.rename(from, to)),
        remove: (path, options) => Effect.andThen(before(`remove ${path}`), files.remove(path, options)),
        open: (path, options) =>
          Effect.map(
            options?.flag === "w"
              ? Effect.andThen(before(`open ${path}`), files.open(path, options))
              : files.open(path, options),
            (file) => stepped(path, file)
          )
      }
    })
  ).pipe(Layer.provide(NodeFileSystem.layer))

/** What a full disk says. */
export const noSpace = (step: string): PlatformError.PlatformError =>
  PlatformError.systemError({
    _tag: "Unknown",
    module: "FileSystem",
    method: "write",
    pathOrDescriptor: 7,
    cause: Object.assign(new Error(`ENOSPC: no space left on device, ${step}`), { code: "ENOSPC" })
  })
