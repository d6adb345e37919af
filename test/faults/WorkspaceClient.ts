import { Effect, Layer, Redacted, Schema, Stream } from "effect"
import { createInterface } from "node:readline"
import * as SecretsLive from "../../src/adapters/crypto/SecretsLive.ts"
import * as PostgresLive from "../../src/adapters/postgres/PostgresLive.ts"
import { WorkspaceFiles } from "../../src/application/ports/files/WorkspaceFiles.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { WorkspacePath } from "../../src/domain/workspace/WorkspacePath.ts"

/**
 * A process on the workspaces of a Postgres server. A line of its input is a commit of one file; it prints how each
 * ended, and every change that it is told of, each a line of JSON with the time.
 */
const [url = ""] = process.argv.slice(2)

const Request = Schema.fromJsonString(
  Schema.Struct({
    workspace: OrganizationId,
    path: WorkspacePath,
    text: Schema.String,
    basedOn: Schema.optionalKey(Schema.NullOr(Schema.String))
  })
)

class Broken extends Schema.TaggedError<Broken>()("Broken", { cause: Schema.Defect() }) {}

const say = (line: object) => Effect.sync(() => console.log(JSON.stringify({ ...line, at: Date.now() })))

await Effect.gen(function* () {
  const files = yield* WorkspaceFiles
  yield* files.changes.pipe(
    Stream.runForEach(({ paths, workspace }) => say({ told: { workspace, paths } })),
    Effect.forkScoped({ startImmediately: true })
  )
  yield* say({ ready: true })
  yield* Stream.fromAsyncIterable(createInterface(process.stdin), (cause) => new Broken({ cause })).pipe(
    Stream.mapEffect((line) => Schema.decodeEffect(Request)(line)),
    Stream.runForEach(({ basedOn, path, text, workspace }) =>
      files.commit(workspace, [{ path, content: new TextEncoder().encode(text), basedOn }]).pipe(
        Effect.match({ onFailure: ({ _tag }) => _tag, onSuccess: () => "won" }),
        Effect.flatMap((ended) => say({ ended }))
      )
    )
  )
}).pipe(
  Effect.scoped,
  Effect.provide(
    PostgresLive.layerServer({ url: Redacted.make(url), maxConnections: 2 }).pipe(
      Layer.provide(SecretsLive.layerKey(Redacted.make(new Uint8Array(32))))
    )
  ),
  Effect.runPromise
)
