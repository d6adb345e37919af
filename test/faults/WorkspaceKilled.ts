import { Effect } from "effect"
import { layer } from "./SteppedFiles.ts"
import { changes, commit, opened } from "./Workspace.ts"

/** Commits the changes to the workspace in the directory, and is killed before the step of the number it is given. */
const [directory = "", kill = ""] = process.argv.slice(2)

let step = 0
const counted = layer(() =>
  Effect.suspend(() => {
    if (++step !== Number(kill)) return Effect.void
    process.kill(process.pid, "SIGKILL")
    return Effect.never
  })
)

await commit(changes).pipe(Effect.provide(opened(directory, counted)), Effect.runPromise)
console.log("committed")
