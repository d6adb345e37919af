import { Console, Effect, Runtime, Schema } from "effect"
import { CliError, CliOutput } from "effect/cli"
import { oneLine } from "./Output.ts"

/** The command has failed and has told the user: only the exit code is left to say. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {}) {
  override readonly [Runtime.errorReported] = false
  override readonly [Runtime.errorExitCode] = 1
}

/** Tells any failure in one line on stderr. What the command line itself refused was presented before. */
export const tell = (error: { readonly message: string }) =>
  CliError.isCliError(error) || error instanceof CommandFailed
    ? Effect.fail(error)
    : Console.error(oneLine(error.message)).pipe(Effect.andThen(Effect.fail(new CommandFailed())))

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
            ? mistakes.join("\n")
            : [help, "", ...mistakes].join("\n")
        )
      }
    }
  }
}
