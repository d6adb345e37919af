import { Effect, Layer, Logger } from "effect"
import { CliConfig, CliOutput, Command, GlobalFlag } from "effect/cli"
import { chat } from "./Chat.ts"
import { credits } from "./Credits.ts"
import { doctor } from "./Doctor.ts"
import { presenter, tell } from "./Failures.ts"
import { keys } from "./Keys.ts"
import { models } from "./ListModels.ts"
import { members } from "./Members.ts"
import { migrate } from "./Migrate.ts"
import type { Options } from "./Options.ts"
import { orgs } from "./Orgs.ts"
import { providerKeys } from "./ProviderKeys.ts"
import { usage } from "./Usage.ts"

const version = "1.0.0"

/** Of the commands other than `serve` stdout is the result: what they log goes to stderr. */
const LogsOnStderr = Layer.mergeAll(Logger.layer([Logger.defaultLogger]), Layer.succeed(Logger.LogToStderr, true))

/** The command line. Without a command it serves. */
export const make = ({ checks, gateway, migrate: migration, models: catalogue, serve, stores }: Options) =>
  // Help shows the name, so that its lines can be typed as they stand.
  Command.make("node src/main.ts", {}, () => serve).pipe(
    Command.withDescription("A self-hosted model gateway. Without a command it serves, on PORT (8080)."),
    Command.withExamples(({ commandPath }) => [
      { command: `${commandPath.join(" ")}`, description: "Serve" },
      { command: `${commandPath.join(" ")} keys create --name laptop`, description: "Another key" },
      { command: `${commandPath.join(" ")} usage --days 7`, description: "What was spent this week" }
    ]),
    Command.withSubcommands([
      Command.make("serve", {}, () => serve).pipe(
        Command.withDescription("Serve until SIGTERM, configured by the environment"),
        Command.withExamples(({ commandPath }) => [
          { command: commandPath.join(" ") },
          { command: `PORT=9000 DATABASE_URL=postgres://... ${commandPath.join(" ")}` }
        ])
      ),
      migrate(migration).pipe(Command.provide(LogsOnStderr)),
      orgs(stores).pipe(Command.provide(LogsOnStderr)),
      members(stores).pipe(Command.provide(LogsOnStderr)),
      keys(stores).pipe(Command.provide(LogsOnStderr)),
      providerKeys(stores).pipe(Command.provide(LogsOnStderr)),
      credits(stores).pipe(Command.provide(LogsOnStderr)),
      usage(stores).pipe(Command.provide(LogsOnStderr)),
      models(catalogue).pipe(Command.provide(LogsOnStderr)),
      chat(gateway).pipe(Command.provide(LogsOnStderr)),
      doctor(checks).pipe(Command.provide(LogsOnStderr))
    ])
  )

/** Runs the command that the process was started with. A failure was told when it arrives here. */
export const run = (options: Options) =>
  Command.run(make(options), { version }).pipe(
    Effect.provideService(CliConfig.CliConfig, CliConfig.make({ builtIns: [GlobalFlag.Help, GlobalFlag.Version] })),
    Effect.provideService(CliOutput.Presenter, presenter),
    Effect.catchCause(tell)
  )
