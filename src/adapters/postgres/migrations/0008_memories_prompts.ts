import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Memories and custom prompts. Times are epoch milliseconds. JSON is kept as the text it came as.
 *
 * Lists of memories are read from indexes that begin with all that is filtered by, each in the order of the list, so
 * that a page costs what it shows and not what the workspace has. For tags that takes a table of its own, which a
 * trigger keeps: nobody else writes it.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE memories (
      organization_id text NOT NULL REFERENCES organizations,
      id              text COLLATE "C" NOT NULL,
      content         text NOT NULL,
      tags            text[] NOT NULL,
      metadata        json NOT NULL,
      source          text NOT NULL GENERATED ALWAYS AS (coalesce(metadata ->> 'source', 'user')) STORED,
      pinned          boolean NOT NULL GENERATED ALWAYS AS (coalesce(metadata ->> 'pinned', '') = 'true') STORED,
      created_at      bigint NOT NULL,
      updated_at      bigint NOT NULL,
      PRIMARY KEY (organization_id, id)
    )`
  yield* sql`CREATE INDEX memories_listed ON memories (organization_id, source, pinned, updated_at DESC, id)`
  yield* sql`
    CREATE TABLE memory_tags (
      organization_id text NOT NULL,
      memory_id       text COLLATE "C" NOT NULL,
      tag             text COLLATE "C" NOT NULL,
      source          text NOT NULL,
      pinned          boolean NOT NULL,
      updated_at      bigint NOT NULL,
      PRIMARY KEY (organization_id, memory_id, tag),
      FOREIGN KEY (organization_id, memory_id) REFERENCES memories ON DELETE CASCADE
    )`
  yield* sql`
    CREATE INDEX memory_tags_listed
    ON memory_tags (organization_id, tag, source, pinned, updated_at DESC, memory_id)`
  yield* sql`
    CREATE FUNCTION keep_memory_tags() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'UPDATE' THEN
        DELETE FROM memory_tags WHERE organization_id = old.organization_id AND memory_id = old.id;
      END IF;
      INSERT INTO memory_tags (organization_id, memory_id, tag, source, pinned, updated_at)
      SELECT new.organization_id, new.id, tag, new.source, new.pinned, new.updated_at FROM unnest(new.tags) AS tag;
      RETURN NULL;
    END $$`
  yield* sql`
    CREATE TRIGGER keep_memory_tags AFTER INSERT OR UPDATE ON memories
    FOR EACH ROW EXECUTE FUNCTION keep_memory_tags()`
  yield* sql`
    CREATE TABLE prompts (
      organization_id text NOT NULL REFERENCES organizations,
      name            text COLLATE "C" NOT NULL,
      id              text NOT NULL,
      title           text,
      description     text NOT NULL,
      content         text NOT NULL,
      arguments       json NOT NULL,
      resource        text,
      PRIMARY KEY (organization_id, name)
    )`
})
