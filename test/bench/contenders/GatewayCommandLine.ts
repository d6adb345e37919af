import { Config, Effect, Schema, Stream } from "effect"
import { ChildProcess } from "effect/process"

export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {
  command: Schema.String,
  code: Schema.Int,
  output: Schema.String
}) {
  override get message() {
    return `"${this.command}" ended with ${this.code}: ${this.output}`
  }
}

const text = <E>(stream: Stream.Stream<Uint8Array, E>) => Stream.mkString(Stream.decodeText(stream))

/** Runs one command of the service and gives what it printed. */
export const commandLine = (mainFile: string, environment: Record<string, string>) =>
  Effect.fn("commandLine")(
    function* (args: ReadonlyArray<string>) {
      const PATH = yield* Config.String("PATH")
      const child = yield* ChildProcess.make(process.execPath, [mainFile, ...args], {
        env: { PATH, ...environment },
        stdin: "ignore",
        forceKillAfter: "2 seconds"
      })
      const [stdout, stderr, code] = yield* Effect.all([text(child.stdout), text(child.stderr), child.exitCode], {
        concurrency: "unbounded"
      })
      if (code !== 0) {
        return yield* new CommandFailed({ command: args.join(" "), code, output: (stderr || stdout).slice(-2000) })
      }
      return stdout
    },
    Effect.scoped,
    Effect.timeout("60 seconds")
  )
