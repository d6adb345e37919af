import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * The files of workspaces. `content` of `.env` is encrypted (see `SecretsLive`), and null for a file that was removed:
 * such a row tells for a while that there was a change. `version` is never used twice.
 *
 * Provider keys are variables of `.env` from now on. They cannot be moved here: what is encrypted for one owner opens
 * for no other.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DROP TABLE provider_keys`
  yield* sql`CREATE SEQUENCE workspace_file_versions`
  yield* sql`
    CREATE TABLE workspace_files (
      organization_id text NOT NULL REFERENCES organizations,
      path            text NOT NULL COLLATE "C",
      content         bytea,
      version         bigint NOT NULL,
      modified_at     timestamptz NOT NULL,
      PRIMARY KEY (organization_id, path)
    )`
  yield* sql`CREATE INDEX workspace_files_by_time ON workspace_files (modified_at)`

  // One statement for the caller: nobody can die or fall silent while the workspace is locked. Gives the path of a file
  // that has another version than its change is based on, and then has done nothing; else null.
  yield* sql`
    CREATE FUNCTION commit_workspace_files(organization text, changes jsonb) RETURNS text
    LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE
      conflict text;
      moment   timestamptz;
    BEGIN
      PERFORM pg_advisory_xact_lock(hashtextextended('workspace_files ' || organization, 0));

      SELECT c.path INTO conflict
      FROM jsonb_to_recordset(changes) AS c (path text, checked boolean, based_on text)
      LEFT JOIN workspace_files f
        ON f.organization_id = organization AND f.path = c.path AND f.content IS NOT NULL
      WHERE c.checked AND f.version::text IS DISTINCT FROM c.based_on
      LIMIT 1;
      IF conflict IS NOT NULL THEN RETURN conflict; END IF;

      moment := clock_timestamp();
      INSERT INTO workspace_files AS f (organization_id, path, content, version, modified_at)
      SELECT organization, c.path, decode(c.content, 'base64'), nextval('workspace_file_versions'), moment
      FROM jsonb_to_recordset(changes) AS c (path text, content text)
      WHERE c.content IS NOT NULL
      ON CONFLICT (organization_id, path) DO UPDATE
      SET content = excluded.content, version = excluded.version, modified_at = excluded.modified_at;

      UPDATE workspace_files f
      SET content = NULL, version = nextval('workspace_file_versions'), modified_at = moment
      FROM jsonb_to_recordset(changes) AS c (path text, content text)
      WHERE f.organization_id = organization AND f.path = c.path AND f.content IS NOT NULL AND c.content IS NULL;

      DELETE FROM workspace_files f
      WHERE f.organization_id = organization AND f.content IS NULL AND f.modified_at < moment - interval '1 day';

      PERFORM pg_notify('workspace_files', organization);
      RETURN NULL;
    END $$`
})
