import { Effect } from "effect"
import { Command } from "effect/cli"
import type { Migration, Options } from "./Options.ts"
import { print } from "./Output.ts"
import * as Parameters from "./Parameters.ts"

const fileName = ([id, name]: Migration): string => `${String(id).padStart(4, "0")}_${name}`

export const migrate = (run: Options["migrate"]) =>
  Command.make(
    "migrate",
    { json: Parameters.json },
    Effect.fnUntraced(function* ({ json }) {
      const ran = (yield* run).map(fileName)
      yield* print(
        json,
        { ran },
        ran.length === 0 ? "The schema is up to date." : ran.map((name) => `Ran ${name}`).join("\n")
      )
    })
  ).pipe(
    Command.withDescription("Bring the schema of the store up to date; every start does so too"),
    Command.withExamples(({ commandPath }) => [{ command: commandPath.join(" ") }])
  )
