import { Effect, Layer, References } from "effect"

/**
 * What the library says of itself: while the store is away the same every two seconds, with all its causes. An operator
 * sees its errors, and the rest when he looks for what is wrong.
 */
export const layer = Layer.effect(
  References.MinimumLogLevel,
  Effect.map(References.MinimumLogLevel, (level) => (level === "Info" || level === "Warn" ? "Error" : level))
)
