import { Effect, FileSystem, Layer, Option, Path } from "effect"
import {
  AgentSources,
  sourceLimits,
  SourceNotFound,
  SourceTooLarge
} from "../../application/ports/files/AgentSources.ts"
import { make as makeFiles, orDieAt, unlessAbsent } from "./Files.ts"

const { bytes: mostBytes, fileBytes: mostBytesOfFile, files: mostFiles } = sourceLimits

/** Hidden files, and whatever is in a hidden directory, are nobody's to read. */
const isHidden = (path: string): boolean => path.split("/").some((name) => name.startsWith("."))

/** Files below these directories. One that is not there yet may come later. */
export const layer = (
  roots: ReadonlyArray<string>
): Layer.Layer<AgentSources, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    AgentSources,
    Effect.gen(function* () {
      const system = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const files = yield* makeFiles

      /** A path without links; none if nothing is there, or nothing that the service may reach. */
      const real = (place: string) =>
        Effect.catchIf(
          unlessAbsent(system.realPath(place)),
          ({ reason }) => reason._tag === "PermissionDenied" || reason._tag === "BadArgument",
          () => Effect.succeedNone
        ).pipe(orDieAt(place))

      /** The root that it lies in, and its path below it. */
      const located = Effect.fnUntraced(function* (place: string) {
        if (!path.isAbsolute(place)) return Option.none()
        const found = yield* real(place)
        if (Option.isNone(found)) return Option.none()
        for (const each of roots) {
          const root = yield* real(each)
          if (Option.isNone(root)) continue
          const below = path.relative(root.value, found.value)
          const isInside = below !== ".." && !below.startsWith(`..${path.sep}`) && !path.isAbsolute(below)
          if (isInside && !isHidden(below)) return Option.some({ place: found.value })
        }
        return Option.none()
      })

      const read = Effect.fn("AgentSources.read")(function* (wanted: string) {
        const found = yield* located(wanted)
        if (Option.isNone(found)) return yield* new SourceNotFound({ path: wanted })
        const { place } = found.value
        const { type } = yield* system.lstat(place).pipe(orDieAt(place))
        if (type !== "File" && type !== "Directory") return yield* new SourceNotFound({ path: wanted })
        const isDirectory = type === "Directory"
        const root = isDirectory ? place : path.dirname(place)
        const names = isDirectory
          ? (yield* files.list(root, "", (name) => !isHidden(name), mostFiles + 1).pipe(orDieAt(place))).map(
              ({ path }) => path
            )
          : [path.basename(place)]
        if (names.length > mostFiles) return yield* new SourceTooLarge({ limit: `${mostFiles} files` })
        const contents = new Map<string, Uint8Array>()
        let total = 0
        for (const name of names) {
          const file = yield* files.read(root, name, mostBytesOfFile + 1).pipe(orDieAt(path.join(root, name)))
          // It went away in between.
          if (Option.isNone(file)) continue
          const { content } = file.value
          if (content.length > mostBytesOfFile) return yield* new SourceTooLarge({ limit: "1 MB in a file" })
          total += content.length
          if (total > mostBytes) return yield* new SourceTooLarge({ limit: "8 MB of files" })
          contents.set(name, content)
        }
        return { isDirectory, files: contents }
      })

      return AgentSources.of({ read })
    })
  )
