/** `npm run bench`: every contender against the same upstream, round by round. See `--help`. */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Clock, Console, Effect, Layer, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { type CellName, cellNames, runCell } from "./cells/Cells.ts"
import { startField } from "./contenders/Field.ts"
import { Load } from "./load/Load.ts"
import { machineFacts, processorTime } from "./machine/MachineFacts.ts"
import { RunFolder } from "./machine/RunFolder.ts"
import { figuresTable, targetsTable } from "./report/Markdown.ts"
import { type Measurement, mediansOf } from "./report/Measurement.ts"
import { Notes, orNote } from "./report/Notes.ts"
import { writeResults } from "./report/Results.ts"
import { verdicts } from "./report/Targets.ts"

const Count = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 120 }))

const seconds = Flag.Int("seconds").pipe(
  Flag.withDescription("How long one load lasts (1 to 120)"),
  Flag.withSchema(Count),
  Flag.withDefault(4)
)
const rounds = Flag.Int("rounds").pipe(
  Flag.withDescription("How often each contender is measured; the report takes medians (1 to 120)"),
  Flag.withSchema(Count),
  Flag.withDefault(3)
)
const only = Flag.Literals("only", cellNames).pipe(
  Flag.withDescription("Measure only this; may be given several times"),
  Flag.atLeast(0)
)

/** A load average before the start from which on figures say more about the neighbours than about the contenders. */
const busy = 0.5

/** Likewise of the processor time that the host of a virtual machine gave to others, of all. */
const taken = 0.02

const measure = Effect.fn("measure")(function* (input: {
  readonly seconds: number
  readonly rounds: number
  readonly only: ReadonlyArray<CellName>
}) {
  const notes = yield* Notes
  const machine = machineFacts()
  const startedAt = new Date(yield* Clock.currentTimeMillis).toISOString()
  if (machine.loadAverageBefore > busy) {
    yield* notes.add(
      `others were using the machine (load average ${machine.loadAverageBefore.toFixed(2)}): run it again`
    )
  }
  const before = processorTime()
  const field = yield* startField()
  const names = input.only.length === 0 ? cellNames : input.only

  const measurements: Array<Measurement> = []
  for (const name of names) measurements.push(...((yield* orNote(name, runCell(name, field, input))) ?? []))

  const after = processorTime()
  const share = (after.taken - before.taken) / (after.all - before.all)
  if (share > taken) {
    yield* notes.add(`the host gave ${(100 * share).toFixed(1)} % of the processor time to others: run it again`)
  }

  const of = mediansOf(measurements)
  const load = (yield* Load).name
  yield* Console.log(
    `${machine.cores} cores, ${machine.system}, Node ${machine.node}, ${load}, ` +
      `${input.rounds} rounds of ${input.seconds} s, load average before: ${machine.loadAverageBefore.toFixed(2)}\n`
  )
  yield* Console.log(`${figuresTable(of)}\n\n${targetsTable(verdicts(of))}\n`)
  const file = yield* writeResults({
    startedAt,
    machine,
    loadGenerator: load,
    seconds: input.seconds,
    rounds: input.rounds,
    cells: names,
    leftOut: notes.all(),
    measurements
  })
  yield* Console.log([...notes.all().map((note) => `- ${note}`), "", `Every round: ${file}`].join("\n"))
}, Effect.scoped)

const Services = Layer.mergeAll(Load.layer, RunFolder.layer, Notes.layer).pipe(Layer.provideMerge(NodeServices.layer))

Command.make("bench", { seconds, rounds, only }, measure).pipe(
  Command.withDescription("Measures this service against nginx, a bare Node proxy and Portkey"),
  Command.run({ version: "1.0.0" }),
  Effect.provide(Services),
  NodeRuntime.runMain
)
