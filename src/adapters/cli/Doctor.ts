import { Cause, Effect, Exit } from "effect"
import { Command } from "effect/cli"
import { CommandFailed, describe } from "./Failures.ts"
import type { Check, Options } from "./Options.ts"
import { oneLine, print } from "./Output.ts"
import * as Parameters from "./Parameters.ts"

/** What a check found. A check that breaks has failed, whatever broke it. */
const report = ({ name, run }: Check) =>
  Effect.exit(run).pipe(
    Effect.map(
      Exit.match({
        onSuccess: (detail) => ({ name, ok: true, detail: oneLine(detail) }),
        onFailure: (cause) => ({ name, ok: false, detail: describe(Cause.squash(cause)) })
      })
    )
  )

export const doctor = (checks: Options["checks"]) =>
  Command.make(
    "doctor",
    { json: Parameters.json },
    Effect.fnUntraced(function* ({ json }) {
      const found = yield* Effect.forEach(yield* checks, report)
      const ok = found.every(({ ok }) => ok)
      const text = found.map(({ detail, name, ok }) => `${ok ? "ok" : "FAILED"} ${name}: ${detail}`).join("\n")
      yield* print(json, { ok, checks: found }, text)
      if (!ok) return yield* new CommandFailed()
    })
  ).pipe(
    Command.withDescription("Check configuration, store, keys and upstreams; exit code 1 if anything would not work"),
    Command.withExamples(({ commandPath }) => [{ command: commandPath.join(" ") }])
  )
