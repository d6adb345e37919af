/**
 * `npm run catalogue:refresh`: writes `data/` anew from the data set of `DataSet.ts`. Raise its version there first.
 * The package is unpacked, not installed, since only its data is wanted.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Array, Console, Effect, FileSystem, Path, Schema } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import { dataset, providers, select, SourceFile } from "./DataSet.ts"
import { dataFolder, PackagedFile } from "./PackagedModels.ts"

const Manifest = Schema.Struct({
  name: Schema.Literal(dataset.name),
  version: Schema.Literal(dataset.version),
  license: Schema.Literal(dataset.licence)
})

class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {
  command: Schema.String,
  exitCode: Schema.Int
}) {
  override get message() {
    return `${this.command} ended with ${this.exitCode}.`
  }
}

const run = Effect.fnUntraced(function* (folder: string, command: string, ...args: ReadonlyArray<string>) {
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const exitCode = yield* spawner.exitCode(ChildProcess.make(command, args, { cwd: folder, extendEnv: true }))
  if (exitCode !== 0) return yield* new CommandFailed({ command, exitCode })
})

const read = Effect.fnUntraced(function* <S extends Schema.ConstraintDecoder<unknown>>(file: string, schema: S) {
  const files = yield* FileSystem.FileSystem
  return yield* Schema.decodeUnknownEffect(Schema.fromJsonString(schema))(yield* files.readFileString(file))
})

/** One model a line, so that a refresh reads well as a difference. */
const print = ({ models, ...head }: PackagedFile): string =>
  `${JSON.stringify(head, null, 2).slice(0, -2)},\n  "models": [\n${models
    .map((model) => `    ${JSON.stringify(model)}`)
    .join(",\n")}\n  ]\n}\n`

const refresh = Effect.gen(function* () {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const folder = yield* files.makeTempDirectoryScoped()
  yield* run(folder, "npm", "pack", "--silent", `${dataset.name}@${dataset.version}`)
  const [archive = ""] = (yield* files.readDirectory(folder)).filter((name) => name.endsWith(".tgz"))
  yield* run(folder, "tar", "-xzf", archive)
  yield* read(path.join(folder, "package", "package.json"), Manifest)

  for (const provider of providers) {
    const source = yield* read(
      path.join(folder, "package", "dist", "providers", "data", `${provider}.json`),
      SourceFile
    )
    const { leftOut, models } = select(provider, source)
    const file = yield* Schema.decodeUnknownEffect(PackagedFile, { onExcessProperty: "error" })({
      dataset,
      provider,
      models
    })
    yield* files.writeFileString(path.join(dataFolder, `${provider}.json`), print(file))
    yield* Console.log(`${provider}: ${models.length} models`)
    for (const [why, some] of Object.entries(Array.groupBy(leftOut, ({ why }) => why))) {
      yield* Console.log(`  left out, ${why}: ${some.map(({ id }) => id).join(", ")}`)
    }
  }
})

refresh.pipe(Effect.scoped, Effect.provide(NodeServices.layer), NodeRuntime.runMain)
