import { Effect } from "effect"
import { setFlagsFromString } from "node:v8"

/**
 * How far the heap grows past what lives in it before garbage is collected. Left to itself the engine lets it grow to
 * several times that, since the machine has the memory: half as much again costs no time that can be measured, and
 * memory under load is flat after seconds instead of minutes.
 */
const percent = 50

/** To be run once, before there is load. */
export const boundHeapGrowth = Effect.sync(() => setFlagsFromString(`--heap-growing-percent=${percent}`))
