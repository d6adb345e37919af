import { Cause, Console, Effect, Option, Runtime, Schema } from "effect"
import { CliError, CliOutput } from "effect/cli"
import { StoreUnavailable } from "../../application/ports/storage/StoreUnavailable.ts"
import type { Failure } from "./Options.ts"
import { oneLine } from "./Output.ts"

/** The command has failed and has told the user: only the exit code is left to say. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {}) {
  override readonly [Runtime.errorReported] = false
  override readonly [Runtime.errorExitCode] = 1
}

/**
 * Tells a failure on stderr: one line for what an operator can mend, all there is to know of a bug. What the command
 * line itself refused was presented before.
 */
export const tell = (cause: Cause.Cause<Failure>) => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
  const failure = Cause.squash(cause)
  if (CliError.isCliError(failure) || failure instanceof CommandFailed) return Effect.fail(failure)
  const isBug = Option.isNone(Cause.findErrorOption(cause)) && !(failure instanceof StoreUnavailable)
  const text = isBug ? Cause.pretty(cause) : describe(failure)
  return Effect.andThen(Console.error(text), Effect.fail(new CommandFailed()))
}

/** One line: what failed and what began it, since a database's own words say more than those of the layers above. */
export const describe = (failure: unknown): string => {
  if (!(failure instanceof Error)) return oneLine(String(failure))
  const root = rootOf(failure)
  return oneLine(root === failure ? failure.message : `${failure.message} (${root.message})`)
}

const rootOf = (error: Error): Error => (error.cause instanceof Error ? rootOf(error.cause) : error)

/**
 * Keeps stdout for results. A bad value is told in one line, as any other failure; a wrong flag or command comes after
 * the help of the command that was meant.
 */
export const presenter: CliOutput.Presenter = {
  present: (event) => {
    switch (event._tag) {
      case "Help":
        return CliOutput.defaultPresenter.present(event)
      case "Version":
        return Console.log(event.version)
      case "InvalidInvocation": {
        const help = CliOutput.defaultFormatter({ colors: false }).formatHelpDoc(event.helpDoc)
        const mistakes = event.errors.map(({ message }) => message)
        return Console.error(
          event.errors.every(({ _tag }) => _tag === "InvalidValue")
            ? mistakes.map(oneLine).join("\n")
            : [help, "", ...mistakes].join("\n")
        )
      }
    }
  }
}
