import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Blobs, who refers to them, and their bytes in pieces, so that no message of the wire holds a whole one. An embedded
 * store has no pieces: it keeps the bytes in files. They are mostly images and documents, which do not compress.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE blobs (
      organization_id text NOT NULL REFERENCES organizations,
      id              text NOT NULL,
      mime_type       text NOT NULL,
      filename        text,
      size            int NOT NULL,
      created_at      bigint NOT NULL,
      PRIMARY KEY (organization_id, id)
    )`
  yield* sql`
    CREATE TABLE blob_pieces (
      organization_id text NOT NULL,
      blob_id         text NOT NULL,
      number          int NOT NULL,
      bytes           bytea NOT NULL,
      PRIMARY KEY (organization_id, blob_id, number),
      FOREIGN KEY (organization_id, blob_id) REFERENCES blobs ON DELETE CASCADE
    )`
  yield* sql`ALTER TABLE blob_pieces ALTER COLUMN bytes SET STORAGE EXTERNAL`
  yield* sql`
    CREATE TABLE blob_references (
      organization_id text NOT NULL,
      owner           text NOT NULL,
      blob_id         text NOT NULL,
      PRIMARY KEY (organization_id, owner, blob_id),
      FOREIGN KEY (organization_id, blob_id) REFERENCES blobs
    )`
  yield* sql`CREATE INDEX blob_references_by_blob ON blob_references (organization_id, blob_id)`
})
