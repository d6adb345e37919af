import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Times are epoch milliseconds, as the domain has them. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE organizations (
      id         text PRIMARY KEY,
      name       text NOT NULL UNIQUE,
      created_at bigint NOT NULL
    )`
  yield* sql`
    CREATE TABLE members (
      id              text PRIMARY KEY,
      organization_id text NOT NULL REFERENCES organizations,
      name            text NOT NULL,
      role            text NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
      created_at      bigint NOT NULL,
      UNIQUE (organization_id, name)
    )`
  yield* sql`
    CREATE TABLE api_keys (
      id              text PRIMARY KEY,
      organization_id text NOT NULL REFERENCES organizations,
      member_id       text NOT NULL REFERENCES members,
      name            text NOT NULL,
      hint            text NOT NULL,
      digest          text NOT NULL UNIQUE,
      created_at      bigint NOT NULL,
      expires_at      bigint,
      revoked_at      bigint
    )`
  yield* sql`CREATE INDEX api_keys_by_organization ON api_keys (organization_id, created_at)`
})
