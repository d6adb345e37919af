import { NodeServices } from "@effect/platform-node"
import { Effect } from "effect"
import { once } from "node:events"
import * as DirectoryLock from "../../../src/adapters/postgres/DirectoryLock.ts"

/** Waits for a line, takes the lock of the directory it is given, says how that went, and stays until its input ends. */
const [directory = ""] = process.argv.slice(2)

console.log("ready")
await once(process.stdin, "data")
const over = once(process.stdin, "end")

await DirectoryLock.take(directory).pipe(
  Effect.match({ onFailure: ({ message }) => message, onSuccess: () => "taken" }),
  Effect.andThen((outcome) => Effect.sync(() => console.log(outcome))),
  Effect.andThen(Effect.promise(() => over)),
  Effect.scoped,
  Effect.provide(NodeServices.layer),
  Effect.runPromise
)
