import { Cache, Context, Duration, Effect, Exit, Layer, Option, Redacted, Schema, Stream } from "effect"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { parseEnv, setEnv } from "../../domain/workspace/EnvText.ts"
import { refusedName, refusedValue } from "../../domain/workspace/EnvVariable.ts"
import { environmentPath } from "../../domain/workspace/WorkspacePath.ts"
import { WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"
import { SecretsUnavailable } from "../ports/runtime/Secrets.ts"

/** A variable that `.env` does not take (decisions 3). */
export class InvalidVariable extends Schema.TaggedError<InvalidVariable>()("InvalidVariable", {
  name: Schema.String,
  message: Schema.String
}) {}

/**
 * The variables of a workspace's `.env` (decisions 3): provider keys, tokens and base addresses. What it reads is at
 * most a second old; what it writes holds here at once, and everywhere within a second.
 */
export class Environment extends Context.Service<
  Environment,
  {
    readonly variables: (workspace: OrganizationId) => Effect.Effect<ReadonlyMap<string, Redacted.Redacted>>
    /**
     * Sets variables, or with null removes them; the other lines of the file stay as they are. All of them or none. A
     * server without SECRETS_KEY stores no `.env`: its message tells the operator how to make one.
     */
    readonly set: (
      workspace: OrganizationId,
      values: ReadonlyMap<string, Redacted.Redacted | null>
    ) => Effect.Effect<void, InvalidVariable | SecretsUnavailable>
  }
>()("gateway/agent/Environment") {
  static readonly layer = Layer.effect(
    Environment,
    Effect.gen(function* () {
      const files = yield* WorkspaceFiles

      const read = Effect.fnUntraced(function* (workspace: OrganizationId) {
        const file = yield* files.read(workspace, environmentPath)
        return Option.match(file, {
          onNone: () => new Map<string, Redacted.Redacted>(),
          onSome: ({ content }) =>
            new Map(
              [...parseEnv(new TextDecoder().decode(content))].map(([name, value]) => [name, Redacted.make(value)])
            )
        })
      })

      const known = yield* Cache.makeWith(read, {
        capacity: 10_000,
        // A look-up that failed, since the store was away, says nothing of the variables.
        timeToLive: (exit) => (Exit.isSuccess(exit) ? Duration.seconds(1) : Duration.zero)
      })

      yield* files.changes.pipe(
        Stream.filter(({ paths }) => paths.length === 0 || paths.includes(environmentPath)),
        Stream.runForEach(({ workspace }) => Cache.invalidate(known, workspace)),
        Effect.forkScoped({ startImmediately: true })
      )

      const write = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        values: ReadonlyMap<string, Redacted.Redacted | null>
      ) {
        const file = yield* files.read(workspace, environmentPath)
        const text = Option.match(file, { onNone: () => "", onSome: ({ content }) => exactText(content) })
        if (text === undefined) return yield* new InvalidVariable({ name: environmentPath, message: notUtf8 })
        const changed = [...values].reduce(
          (kept, [name, value]) => setEnv(kept, name, value === null ? null : Redacted.value(value)),
          text
        )
        if (changed === text) return
        const basedOn = Option.match(file, { onNone: () => null, onSome: ({ version }) => version })
        yield* files.commit(workspace, [{ path: environmentPath, content: new TextEncoder().encode(changed), basedOn }])
      })

      const set = Effect.fn("Environment.set")(function* (
        workspace: OrganizationId,
        values: ReadonlyMap<string, Redacted.Redacted | null>
      ) {
        for (const [name, value] of values) {
          const message = refusedName(name) ?? (value === null ? undefined : refusedValue(Redacted.value(value)))
          if (message !== undefined) return yield* new InvalidVariable({ name, message })
        }
        yield* write(workspace, values).pipe(
          // Who changed the file in between got on with it, so this ends.
          Effect.retry({ while: ({ _tag }) => _tag === "WorkspaceConflict", times: 1_000 }),
          Effect.catchTag("WorkspaceConflict", Effect.die),
          Effect.catchDefect((defect) => (isSecretsUnavailable(defect) ? Effect.fail(defect) : Effect.die(defect))),
          Effect.ensuring(Cache.invalidate(known, workspace))
        )
      })

      return Environment.of({ variables: (workspace) => Cache.get(known, workspace), set })
    })
  )
}

const isSecretsUnavailable = Schema.is(SecretsUnavailable)

const notUtf8 = "The file .env of the workspace is not UTF-8, and would not stay as it is. Save it as UTF-8 first."

/** The text with its byte order mark; undefined if writing it back would change the bytes. */
const exactText = (bytes: Uint8Array): string | undefined => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
