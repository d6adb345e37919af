import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Layer, Path, type Redacted, String } from "effect"
import * as BlobFiles from "./BlobFiles.ts"
import * as DirectoryLock from "./DirectoryLock.ts"
import { Patience } from "./Patience.ts"
import { pgliteStream } from "./PgliteStream.ts"

const names = { transformQueryNames: String.camelToSnake, transformResultNames: String.snakeToCamel }

/** Within it a request learns that the server is away. */
const patience = Duration.millis(1_500)

/** A Postgres server: a pool of connections. Fails when the server cannot be used now; it may go away later. */
export const server = (options: { readonly url: Redacted.Redacted; readonly maxConnections: number }) =>
  PgClient.layerFrom(
    Effect.tap(
      PgClient.make({
        ...names,
        url: options.url,
        maxConnections: options.maxConnections,
        connectTimeout: patience,
        applicationName: "model-gateway"
      }),
      (sql) => sql`SELECT 1`
    )
  ).pipe(Layer.merge(Layer.sync(Patience, () => ({ limit: patience, isSilent: false }))))

/**
 * The embedded PGlite in a directory, on its one connection, with the files of blobs beside it; nobody else may open the
 * directory meanwhile.
 */
export const embedded = (directory: string) =>
  PgClient.layerFrom(
    Effect.gen(function* () {
      yield* DirectoryLock.take(directory)
      const path = yield* Path.Path
      const database = yield* Effect.acquireRelease(
        // A whole Postgres: a process that uses a server never loads it.
        Effect.promise(() =>
          import("@electric-sql/pglite").then(({ PGlite }) => PGlite.create(path.join(directory, "pglite")))
        ),
        (database) => Effect.promise(() => database.close())
      )
      return yield* PgClient.makeClient({ ...names, username: "postgres", stream: () => pgliteStream(database) })
    })
  ).pipe(
    Layer.merge(
      Layer.effect(
        BlobFiles.CurrentBlobFiles,
        Effect.flatMap(Path.Path, (path) => BlobFiles.make(path.join(directory, "blobs")))
      )
    )
  )
