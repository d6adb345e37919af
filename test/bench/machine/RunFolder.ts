import { Context, Effect, FileSystem, Layer } from "effect"

/** Where one run keeps its logs, configuration and database; removed when the run ends. */
export class RunFolder extends Context.Service<RunFolder, { readonly path: string }>()("bench/RunFolder") {
  static readonly layer = Layer.effect(
    RunFolder,
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const path = yield* files.makeTempDirectoryScoped({ prefix: "gateway-bench-" })
      // The database runs as another user when the bench runs as root, and must be able to pass through.
      yield* files.chmod(path, 0o755)
      return RunFolder.of({ path })
    })
  )
}
