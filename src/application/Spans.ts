import { Effect, References } from "effect"

/** A span around an effect, without a stack trace of where it began. */
export type Spanned = <A, E, R>(name: string, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/**
 * Spans for the path that carries the load. Where nobody collects traces a span still costs more than much of what it
 * is around; so that is decided once, when a layer is built.
 */
export const spans: Effect.Effect<Spanned> = Effect.map(References.TracerEnabled, (enabled): Spanned =>
  enabled ? (name, effect) => Effect.withSpan(effect, name, { captureStackTrace: false }) : (_name, effect) => effect
)
