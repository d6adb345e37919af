import { Cache, Duration, Effect, Exit, Layer, Option, PubSub, Redacted, Schema, Semaphore, Stream } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import {
  type FileChange,
  type WorkspaceChange,
  type WorkspaceFile,
  WorkspaceFiles
} from "../../application/ports/files/WorkspaceFiles.ts"
import { SealedText, Secrets } from "../../application/ports/runtime/Secrets.ts"
import { Organizations } from "../../application/ports/storage/Organizations.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { WorkspaceConflict } from "../../domain/workspace/WorkspaceErrors.ts"
import { environmentPath, WorkspacePath } from "../../domain/workspace/WorkspacePath.ts"
import { SafeInt8 } from "./Columns.ts"
import { isAway, toDefect } from "./Failures.ts"
import { wakeUps } from "./Notices.ts"
import * as Patience from "./Patience.ts"

const Listed = { path: WorkspacePath, version: Schema.String, lastModified: SafeInt8 }

/** A change as `commit_workspace_files` takes it: its content in base64. */
const Change = Schema.Struct({
  path: WorkspacePath,
  content: Schema.NullOr(Schema.String),
  checked: Schema.Boolean,
  basedOn: Schema.NullOr(Schema.String)
}).pipe(Schema.encodeKeys({ basedOn: "based_on" }))

/** An agent with all its files, in bytes: it takes a server longer than a request waits for it otherwise. */
const large = 512 * 1024

const sizeOf = (changes: ReadonlyArray<FileChange>): number =>
  changes.reduce((sum, { content }) => sum + (content?.length ?? 0), 0)

/**
 * Workspaces as versioned rows, the same for every process on the server. `.env` is encrypted: it opens at its place in
 * its workspace only.
 */
export const layer = Layer.effect(
  WorkspaceFiles,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const organizations = yield* Organizations
    const secrets = yield* Secrets
    const { briefly, longer } = yield* Patience.make
    const changes = yield* PubSub.unbounded<WorkspaceChange>()

    const findFile = SqlSchema.findOneOption({
      Request: Schema.Struct({ workspace: OrganizationId, path: WorkspacePath }),
      Result: Schema.Struct({ ...Listed, content: Schema.Uint8Array }),
      execute: ({ path, workspace }) => sql`
        SELECT path, content, version::text, floor(extract(epoch FROM modified_at) * 1000)::bigint AS last_modified
        FROM workspace_files
        WHERE organization_id = ${workspace} AND path = ${path} AND content IS NOT NULL`
    })

    const findAll = SqlSchema.findAll({
      Request: Schema.Struct({ workspace: OrganizationId, prefix: Schema.String }),
      Result: Schema.Struct(Listed),
      execute: ({ prefix, workspace }) => sql`
        SELECT path, version::text, floor(extract(epoch FROM modified_at) * 1000)::bigint AS last_modified
        FROM workspace_files
        WHERE organization_id = ${workspace} AND starts_with(path, ${prefix}) AND content IS NOT NULL`
    })

    const commitFiles = SqlSchema.findOne({
      Request: Schema.Struct({
        workspace: OrganizationId,
        changes: Schema.fromJsonString(Schema.Array(Change))
      }),
      Result: Schema.Struct({ conflict: Schema.NullOr(Schema.String) }),
      execute: ({ changes, workspace }) =>
        sql`SELECT commit_workspace_files(${workspace}, ${changes}::jsonb) AS conflict`
    })

    /** What has changed since a moment, less a minute for what was not committed then; since none, nothing. */
    const findRecent = SqlSchema.findAll({
      Request: Schema.NullOr(Schema.String),
      Result: Schema.Struct({
        moment: Schema.String,
        organizationId: Schema.NullOr(OrganizationId),
        path: Schema.NullOr(WorkspacePath),
        version: Schema.NullOr(Schema.String)
      }),
      execute: (since) => sql`
        SELECT clock.moment::text, f.organization_id, f.path, f.version::text
        FROM (SELECT clock_timestamp() AS moment) AS clock
        LEFT JOIN workspace_files f
          ON f.modified_at > coalesce(${since}::timestamptz, now()) - interval '1 minute'`
    })

    const ownerOf = (workspace: OrganizationId, path: WorkspacePath) => ["workspace-file", workspace, path]

    /** The content as it is stored, in base64. */
    const storedForm = Effect.fnUntraced(function* (workspace: OrganizationId, { content, path }: FileChange) {
      if (content === null) return null
      const text = Buffer.from(content).toString("base64")
      if (path !== environmentPath) return text
      const sealed = yield* Effect.orDie(secrets.seal(Redacted.make(text), ownerOf(workspace, path)))
      return Buffer.from(sealed).toString("base64")
    })

    const openedForm = Effect.fnUntraced(function* (
      workspace: OrganizationId,
      { content, path }: Pick<WorkspaceFile, "path" | "content">
    ) {
      if (path !== environmentPath) return content
      const sealed = SealedText.make(Buffer.from(content).toString())
      const text = yield* Effect.orDie(secrets.open(sealed, ownerOf(workspace, path)))
      return new Uint8Array(Buffer.from(Redacted.value(text), "base64"))
    })

    const read = Effect.fn("WorkspaceFiles.read")(function* (workspace: OrganizationId, path: WorkspacePath) {
      const found = yield* Effect.catch(briefly(findFile({ workspace, path })), toDefect)
      if (Option.isNone(found)) return Option.none<WorkspaceFile>()
      return Option.some({ ...found.value, content: yield* openedForm(workspace, found.value) })
    })

    const commit = Effect.fn("WorkspaceFiles.commit")(function* (
      workspace: OrganizationId,
      wanted: ReadonlyArray<FileChange>
    ) {
      const changes = yield* Effect.forEach(wanted, (change) =>
        Effect.map(storedForm(workspace, change), (content) => ({
          path: change.path,
          content,
          checked: change.basedOn !== undefined,
          basedOn: change.basedOn ?? null
        }))
      )
      const patiently = sizeOf(wanted) > large ? longer : briefly
      const { conflict } = yield* patiently(commitFiles({ workspace, changes })).pipe(
        Effect.catchTag("NoSuchElementError", Effect.die),
        Effect.catch(toDefect)
      )
      if (conflict !== null) return yield* new WorkspaceConflict({ path: conflict })
      yield* catchUp
    })

    const alone = yield* Semaphore.make(1)
    let since: string | null = null
    /** The versions that were there at the last look, of the files that have changed a short time before it. */
    let known: ReadonlyMap<string, string> = new Map()

    const look = Effect.gen(function* () {
      const rows = yield* briefly(findRecent(since))
      const isFirst = since === null
      const found = new Map<string, string>()
      const changed = new Map<OrganizationId, Array<WorkspacePath>>()
      for (const { moment, organizationId, path, version } of rows) {
        since = moment
        if (organizationId === null || path === null || version === null) continue
        const place = `${organizationId}\n${path}`
        found.set(place, version)
        if (isFirst || known.get(place) === version) continue
        const paths = changed.get(organizationId)
        if (paths === undefined) changed.set(organizationId, [path])
        else paths.push(path)
      }
      known = found
      for (const [workspace, paths] of changed) yield* PubSub.publish(changes, { workspace, paths })
    }).pipe((looking) => alone.withPermit(looking))

    /** What was missed while the store is away is found when it is back. */
    const catchUp = Effect.catch(look, (error) =>
      isAway(error) ? Effect.void : Effect.logError("Changes of workspaces cannot be read.", error)
    )

    yield* catchUp
    yield* (yield* wakeUps("workspace_files")).pipe(
      Stream.runForEach(() => catchUp),
      Effect.forkScoped
    )

    const names = yield* Cache.makeWith(organizations.findById, {
      capacity: 10_000,
      timeToLive: (exit) => (Exit.isSuccess(exit) && Option.isSome(exit.value) ? Duration.infinity : Duration.zero)
    })

    return WorkspaceFiles.of({
      root: (workspace) =>
        Effect.flatMap(
          Cache.get(names, workspace),
          Option.match({
            onNone: () => Effect.die(new Error(`no organization ${workspace}`)),
            onSome: ({ name }) => Effect.succeed(`/workspaces/${name}`)
          })
        ),
      read,
      list: Effect.fn("WorkspaceFiles.list")(function* (workspace, directory) {
        const prefix = directory === "" ? "" : `${directory}/`
        const found = yield* Effect.catch(briefly(findAll({ workspace, prefix })), toDefect)
        // In the order of their characters, as on the other stores.
        return found.toSorted((one, other) => (one.path < other.path ? -1 : 1))
      }),
      commit,
      changes: Stream.fromPubSub(changes)
    })
  })
)
