import { Effect } from "effect"
import type { Field } from "../contenders/Field.ts"
import { aborts } from "./Aborts.ts"
import { embedded } from "./Embedded.ts"
import { firstByte } from "./FirstByteCells.ts"
import { holdPairs } from "./HoldPairs.ts"
import { modelList } from "./Models.ts"
import type { Bounds } from "./Rounds.ts"
import { search } from "./Search.ts"
import { idleSockets } from "./Sockets.ts"
import { startToReady } from "./Start.ts"
import { throughput } from "./Throughput.ts"
import { turns } from "./Turns.ts"

/** Everything a run can measure, by the name that `--only` takes. Without the gateway its own cells are empty. */
const cells = {
  json: ({ contenders, database }: Field, bounds: Bounds) => throughput("bench-json", contenders, database, bounds),
  burst: ({ contenders, database }: Field, bounds: Bounds) => throughput("bench-burst", contenders, database, bounds),
  late: ({ contenders, database }: Field, bounds: Bounds) => throughput("bench-late", contenders, database, bounds),
  paced: ({ contenders, database }: Field, bounds: Bounds) => throughput("bench-paced", contenders, database, bounds),
  "first-byte-1": ({ contenders }: Field, bounds: Bounds) => firstByte("first-byte-1", contenders, bounds),
  "first-byte-64": ({ contenders }: Field, bounds: Bounds) => firstByte("first-byte-64", contenders, bounds),
  models: ({ gateway }: Field, bounds: Bounds) =>
    gateway === undefined ? Effect.succeed([]) : modelList(gateway.contender, bounds),
  pairs: ({ database }: Field, bounds: Bounds) => holdPairs(database, bounds),
  search: ({ database, gateway }: Field, bounds: Bounds) =>
    gateway === undefined ? Effect.succeed([]) : search(gateway.contender, database, bounds),
  turns: ({ gateway, upstream }: Field, bounds: Bounds) =>
    gateway === undefined ? Effect.succeed([]) : turns(gateway.contender, upstream, gateway.environment, bounds),
  sockets: ({ gateway }: Field, bounds: Bounds) =>
    gateway === undefined ? Effect.succeed([]) : idleSockets(gateway.contender, gateway.environment, bounds),
  abort: ({ contenders, upstream }: Field, bounds: Bounds) => aborts(contenders, upstream, bounds),
  start: ({ gateway }: Field, bounds: Bounds) =>
    gateway === undefined ? Effect.succeed([]) : startToReady(gateway.environment, bounds),
  embedded: ({ gateway, upstream }: Field, bounds: Bounds) =>
    gateway === undefined ? Effect.succeed([]) : embedded(upstream, bounds)
}
export type CellName = keyof typeof cells
export const cellNames = Object.keys(cells) as ReadonlyArray<CellName>

export const runCell = Effect.fn("runCell")(function* (name: CellName, field: Field, bounds: Bounds) {
  return yield* cells[name](field, bounds)
})
