import { Effect } from "effect"
import { Migrator } from "effect/sql"
import { toDefect } from "./Failures.ts"
import identity from "./migrations/0001_identity.ts"
import billing from "./migrations/0002_billing.ts"
import providerKeys from "./migrations/0003_provider_keys.ts"
import accountRounds from "./migrations/0004_account_rounds.ts"
import idempotency from "./migrations/0005_idempotency.ts"
import workspaces from "./migrations/0006_workspaces.ts"
import blobs from "./migrations/0007_blobs.ts"
import memoriesPrompts from "./migrations/0008_memories_prompts.ts"
import llm from "./migrations/0009_llm.ts"
import conversations from "./migrations/0010_conversations.ts"
import allowedTools from "./migrations/0011_allowed_tools.ts"
import cluster from "./migrations/0012_cluster.ts"
import keptChunks from "./migrations/0013_kept_chunks.ts"
import endsOfRemoved from "./migrations/0014_ends_of_removed.ts"
import searchedTexts from "./migrations/0015_searched_texts.ts"
import trigrams from "./migrations/0016_trigrams.ts"
import fewerStatements from "./migrations/0017_fewer_statements.ts"
import trigramsAgain from "./migrations/0018_trigrams_again.ts"

const migrate = Migrator.make({})

/** In the order that they run in. */
export const all = {
  "0001_identity": identity,
  "0002_billing": billing,
  "0003_provider_keys": providerKeys,
  "0004_account_rounds": accountRounds,
  "0005_idempotency": idempotency,
  "0006_workspaces": workspaces,
  "0007_blobs": blobs,
  "0008_memories_prompts": memoriesPrompts,
  "0009_llm": llm,
  "0010_conversations": conversations,
  "0011_allowed_tools": allowedTools,
  "0012_cluster": cluster,
  "0013_kept_chunks": keptChunks,
  "0014_ends_of_removed": endsOfRemoved,
  "0015_searched_texts": searchedTexts,
  "0016_trigrams": trigrams,
  "0017_fewer_statements": fewerStatements,
  "0018_trigrams_again": trigramsAgain
}

/** Those of `all` that are given. */
export const runOnly = (migrations: Partial<typeof all>) =>
  migrate({ loader: Migrator.fromRecord(migrations), table: "schema_migrations" }).pipe(
    Effect.catchTag("SqlError", toDefect),
    Effect.orDie
  )

/**
 * Brings the schema up to date; gives the migrations that ran. Any number of processes may call it at once: a lock on
 * the table of migrations lets each run once.
 */
export const run = runOnly(all)
