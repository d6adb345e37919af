import { NodeServices } from "@effect/platform-node"
import { Effect } from "effect"
import { once } from "node:events"
import * as DirectoryLock from "../../../src/adapters/postgres/DirectoryLock.ts"

/** A process that takes the lock of the directory it is given, says how that went, and lives until its input ends. */
console.log("ready")
const [directory = ""] = process.argv.slice(2)

await once(process.stdin.resume(), "data")
await DirectoryLock.take(directory).pipe(
  Effect.matchEffect({
    onFailure: ({ message }) => Effect.sync(() => console.log(message)),
    onSuccess: () => Effect.sync(() => console.log("taken"))
  }),
  Effect.andThen(Effect.promise(() => once(process.stdin.resume(), "end"))),
  Effect.scoped,
  Effect.provide(NodeServices.layer),
  Effect.runPromise
)
