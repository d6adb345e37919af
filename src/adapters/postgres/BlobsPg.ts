import { Clock, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Blobs } from "../../application/ports/storage/Blobs.ts"
import { Blob, BlobId, blobIdOf } from "../../domain/resource/Blob.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { CurrentBlobFiles } from "./BlobFiles.ts"
import { SafeInt8 } from "./Columns.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"

/** Bytes of one row. */
const pieceBytes = 256 * 1024

/** Rows that are read at once: a whole blob would be longer than a message may be. */
const piecesAtOnce = 8

const Row = Schema.Struct({
  ...Blob.fields,
  organizationId: OrganizationId,
  filename: Schema.NullOr(Schema.String),
  createdAt: SafeInt8
})
type Row = typeof Row.Type

const Key = Schema.Struct({ organization: OrganizationId, id: BlobId })
type Key = typeof Key.Type

const Owner = Schema.Struct({ organization: OrganizationId, owner: Schema.String })

/**
 * Whoever refers to a blob holds its row until the end of the transaction, and so does whoever lets go of it: no blob
 * is deleted that somebody begins to refer to. Rows of several blobs are taken in the order of their ids.
 */
export const layer = Layer.effect(
  Blobs,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const files = yield* CurrentBlobFiles
    const { briefly, longer } = yield* Patience.make

    /** A row that nobody has written before has no `xmax`. */
    const takeRow = SqlSchema.findOne({
      Request: Row,
      Result: Schema.Struct({ ...Row.fields, isNew: Schema.Boolean }),
      execute: (row) => sql`
        INSERT INTO blobs ${sql.insert(row)}
        ON CONFLICT (organization_id, id) DO UPDATE SET size = excluded.size
        RETURNING *, xmax = 0 AS is_new`
    })

    const rows = SqlSchema.findAll({
      Request: OrganizationId,
      Result: Row,
      execute: (id) => sql`SELECT * FROM blobs WHERE organization_id = ${id} ORDER BY created_at DESC, id`
    })

    const rowOf = SqlSchema.findOneOption({
      Request: Key,
      Result: Row,
      execute: ({ id, organization }) => sql`SELECT * FROM blobs WHERE organization_id = ${organization} AND id = ${id}`
    })

    const piecesFrom = SqlSchema.findAll({
      Request: Schema.Struct({ ...Key.fields, number: Schema.Int }),
      Result: Schema.Struct({ bytes: Schema.Uint8Array }),
      execute: ({ id, number, organization }) => sql`
        SELECT bytes FROM blob_pieces
        WHERE organization_id = ${organization} AND blob_id = ${id}
          AND number >= ${number} AND number < ${number + piecesAtOnce}
        ORDER BY number`
    })

    const takeReferred = SqlSchema.findAll({
      Request: Owner,
      Result: Schema.Struct({ id: BlobId }),
      execute: ({ organization, owner }) => sql`
        SELECT b.id FROM blobs b
        WHERE b.organization_id = ${organization} AND EXISTS (
          SELECT 1 FROM blob_references r
          WHERE r.organization_id = b.organization_id AND r.blob_id = b.id AND r.owner = ${owner})
        ORDER BY b.id FOR UPDATE`
    })

    const deleteReferences = SqlSchema.void({
      Request: Schema.Struct({ ...Owner.fields, ids: Schema.Array(BlobId) }),
      execute: ({ ids, organization, owner }) => sql`
        DELETE FROM blob_references
        WHERE organization_id = ${organization} AND owner = ${owner} AND ${sql.in("blob_id", ids)}`
    })

    const deleteUnreferred = SqlSchema.findAll({
      Request: Schema.Struct({ organization: OrganizationId, ids: Schema.Array(BlobId) }),
      Result: Schema.Struct({ id: BlobId }),
      execute: ({ ids, organization }) => sql`
        DELETE FROM blobs b
        WHERE b.organization_id = ${organization} AND ${sql.in("b.id", ids)} AND NOT EXISTS (
          SELECT 1 FROM blob_references r WHERE r.organization_id = b.organization_id AND r.blob_id = b.id)
        RETURNING b.id`
    })

    const idsOf = SqlSchema.findAll({
      Request: Schema.Struct({ organization: OrganizationId, prefix: Schema.String }),
      Result: Schema.Struct({ id: BlobId }),
      execute: ({ organization, prefix }) => sql`
        SELECT id FROM blobs WHERE organization_id = ${organization} AND starts_with(id, ${prefix})`
    })

    const writePieces = Effect.fnUntraced(function* ({ id, organization }: Key, bytes: Uint8Array) {
      for (let number = 0; number * pieceBytes < bytes.length; number++) {
        const piece = bytes.subarray(number * pieceBytes, (number + 1) * pieceBytes)
        yield* sql`INSERT INTO blob_pieces VALUES (${organization}, ${id}, ${number}, ${piece})`
      }
    })

    const readPieces = Effect.fnUntraced(function* (key: Key, size: number) {
      const pieces: Array<Uint8Array> = []
      for (;;) {
        const found = yield* longer(piecesFrom({ ...key, number: pieces.length }))
        pieces.push(...found.map(({ bytes }) => bytes))
        if (found.length < piecesAtOnce) break
      }
      const bytes = Buffer.concat(pieces)
      // Let go of while it was read.
      return bytes.length === size ? Option.some<Uint8Array>(bytes) : Option.none()
    })

    const putRows = Effect.fnUntraced(function* (row: Row, owner: string, bytes: Uint8Array) {
      const key = { organization: row.organizationId, id: row.id }
      const { isNew, ...taken } = yield* takeRow(row)
      if (isNew && files === undefined) yield* writePieces(key, bytes)
      yield* sql`
        INSERT INTO blob_references (organization_id, owner, blob_id)
        VALUES (${key.organization}, ${owner}, ${key.id}) ON CONFLICT DO NOTHING`
      return blobOf(taken)
    }, sql.withTransaction)

    const releaseRows = Effect.fnUntraced(function* (owner: typeof Owner.Type) {
      const ids = (yield* takeReferred(owner)).map(({ id }) => id)
      if (ids.length === 0) return []
      yield* deleteReferences({ ...owner, ids })
      return yield* deleteUnreferred({ organization: owner.organization, ids })
    }, sql.withTransaction)

    if (files !== undefined) {
      const sweep = files.sweep((organization, prefix) =>
        Effect.map(
          Effect.catch(idsOf({ organization, prefix }), toDefect),
          (found) => new Set<string>(found.map(({ id }) => id))
        )
      )
      yield* sweep.pipe(
        Effect.tap((removed) => (removed > 0 ? Effect.logInfo(`Removed ${removed} files of no blob.`) : Effect.void)),
        Effect.catchCause((cause) => Effect.logWarning("Files of no blob could not be removed.", cause)),
        Effect.forkScoped
      )
    }

    return Blobs.of({
      put: Effect.fn("Blobs.put")(function* (organization, owner, { bytes, filename = null, mimeType }) {
        const id = yield* blobIdOf(bytes)
        const createdAt = yield* Clock.currentTimeMillis
        const row = { organizationId: organization, id, mimeType, filename, size: bytes.length, createdAt }
        const putting = longer(putRows(row, owner, bytes)).pipe(
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.catch(toDefect)
        )
        return yield* files === undefined
          ? putting
          : files.exclusively(Effect.andThen(files.write(organization, id, bytes), putting))
      }),
      find: Effect.fn("Blobs.find")((organization, id) =>
        Effect.map(Effect.catch(briefly(rowOf({ organization, id })), toDefect), Option.map(blobOf))
      ),
      read: Effect.fn("Blobs.read")(function* (organization, id) {
        const row = yield* Effect.catch(briefly(rowOf({ organization, id })), toDefect)
        if (Option.isNone(row)) return Option.none()
        return yield* files === undefined
          ? Effect.catch(readPieces({ organization, id }, row.value.size), toDefect)
          : files.read(organization, id)
      }),
      list: Effect.fn("Blobs.list")((organization) =>
        Effect.map(Effect.catch(briefly(rows(organization)), toDefect), (found) => found.map(blobOf))
      ),
      release: Effect.fn("Blobs.release")(function* (organization, owner) {
        const releasing = Effect.catch(longer(releaseRows({ organization, owner })), toDefect)
        if (files === undefined) return yield* Effect.asVoid(releasing)
        yield* files.exclusively(
          Effect.flatMap(releasing, (gone) =>
            Effect.forEach(gone, ({ id }) => files.remove(organization, id), { discard: true })
          )
        )
      })
    })
  })
)

const blobOf = ({ createdAt, filename, id, mimeType, size }: Row): Blob => ({
  id,
  mimeType,
  ...(filename === null ? {} : { filename }),
  size,
  createdAt
})
