import { Config, Effect, FileSystem } from "effect"

/** Where server programs live that are not on every user's `PATH`. */
const systemFolders = ["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"]

/** The full path of an installed program, or `undefined`. */
export const findProgram = Effect.fn("findProgram")(function* (name: string) {
  const files = yield* FileSystem.FileSystem
  const path = yield* Config.String("PATH").pipe(Config.withDefault(""))
  const candidates = [...path.split(":").filter((folder) => folder !== ""), ...systemFolders]
  for (const candidate of candidates.map((folder) => `${folder}/${name}`)) {
    if (yield* files.exists(candidate)) return candidate
  }
  return undefined
})
