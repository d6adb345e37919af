import { Context, type Effect, type Redacted, Schema } from "effect"
import type { OrganizationId } from "../../domain/shared/Ids.ts"

/** A variable that `.env` does not take (decisions 3). */
export class InvalidVariable extends Schema.TaggedError<InvalidVariable>()("InvalidVariable", {
  name: Schema.String,
  message: Schema.String
}) {}

/**
 * The variables of a workspace's `.env` (decisions 3): provider keys, tokens and base addresses. What it reads is at
 * most a second old; what it writes holds everywhere within one.
 */
export class Environment extends Context.Service<
  Environment,
  {
    readonly variables: (workspace: OrganizationId) => Effect.Effect<ReadonlyMap<string, Redacted.Redacted>>
    /** Sets variables, or with null removes them; the other lines of the file stay as they are. */
    readonly set: (
      workspace: OrganizationId,
      values: ReadonlyMap<string, Redacted.Redacted | null>
    ) => Effect.Effect<void, InvalidVariable>
  }
>()("gateway/agent/Environment") {}
