import type { Effect, Layer, Option, Redacted } from "effect"
import type { Command } from "effect/cli"
import type { Accounts } from "../../application/identity/Accounts.ts"
import type { ProviderKeyRing } from "../../application/identity/ProviderKeyRing.ts"
import type { UsageEvents } from "../../application/ports/storage/UsageEvents.ts"
import type { ModelCatalog } from "../../application/ports/vendor/ModelCatalog.ts"

/** An operator is told the message, in one line. */
export type Failure = Error

/** A service that a command opens when it runs, and not for its help. */
export type Opened<Service> = Layer.Layer<Service, Failure, Command.Environment>

/** One thing that `doctor` looks at. It says what it found, or why the service would not work. */
export interface Check {
  readonly name: string
  readonly run: Effect.Effect<string, Failure, Command.Environment>
}

/** A migration as the schema remembers it. */
export type Migration = readonly [id: number, name: string]

/** Where the service is that `chat` talks to, and as whom. */
export interface Gateway {
  readonly url: string
  /** None: a service that is open to its own machine. */
  readonly key: Option.Option<Redacted.Redacted>
}

/** What the commands do their work with. */
export interface Options {
  readonly serve: Effect.Effect<void, Failure, Command.Environment>
  /** Brings the schema up to date; gives what ran. */
  readonly migrate: Effect.Effect<ReadonlyArray<Migration>, Failure, Command.Environment>
  readonly stores: Opened<Accounts | ProviderKeyRing | UsageEvents>
  readonly models: Opened<ModelCatalog>
  readonly gateway: Effect.Effect<Gateway, Failure>
  readonly checks: Effect.Effect<ReadonlyArray<Check>, Failure, Command.Environment>
}
