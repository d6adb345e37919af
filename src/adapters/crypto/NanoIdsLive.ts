import { Effect, Layer } from "effect"
import { nanoid } from "nanoid"
import { NanoIds } from "../../application/ports/runtime/NanoIds.ts"

/** 126 random bits each. */
export const layer = Layer.succeed(NanoIds, NanoIds.of({ next: Effect.sync(() => nanoid()) }))
