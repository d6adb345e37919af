import type { Medians } from "./Measurement.ts"

export interface Verdict {
  readonly what: string
  readonly target: string
  /** `undefined`: not measured in this run. */
  readonly measured: number | undefined
  readonly met: boolean | undefined
}

const ratio = (a: number | undefined, b: number | undefined) => (a === undefined || b === undefined ? undefined : a / b)
const difference = (a: number | undefined, b: number | undefined) =>
  a === undefined || b === undefined ? undefined : a - b

const atLeast = (what: string, bound: number, unit: string, measured: number | undefined): Verdict => ({
  what,
  target: `at least ${bound}${unit}`,
  measured,
  met: measured === undefined ? undefined : measured >= bound
})
const atMost = (what: string, bound: number, unit: string, measured: number | undefined): Verdict => ({
  what,
  target: `at most ${bound}${unit}`,
  measured,
  met: measured === undefined ? undefined : measured <= bound
})

/** The targets of the gateway; every ratio is between medians of the same run. */
export const verdicts = (of: Medians): ReadonlyArray<Verdict> => [
  atLeast("JSON, to nginx", 0.3, "", ratio(of("json", "gateway"), of("json", "nginx"))),
  atLeast("JSON, to Portkey", 4, "", ratio(of("json", "gateway"), of("json", "portkey"))),
  atLeast("53 frames at once, to nginx", 0.4, "", ratio(of("burst", "gateway"), of("burst", "nginx"))),
  atLeast("53 frames at once, to Portkey", 6, "", ratio(of("burst", "gateway"), of("burst", "portkey"))),
  atLeast("53 frames after 20 ms, to nginx", 0.95, "", ratio(of("late", "gateway"), of("late", "nginx"))),
  atLeast("53 frames 20 ms apart, to nginx", 0.95, "", ratio(of("paced", "gateway"), of("paced", "nginx"))),
  atMost(
    "added time to first byte over direct, 1 connection",
    1,
    " ms",
    difference(of("first-byte-1", "gateway"), of("first-byte-1", "direct"))
  ),
  atMost(
    "time to first byte at 64 streams, to nginx",
    2,
    "",
    ratio(of("first-byte-64", "gateway"), of("first-byte-64", "nginx"))
  ),
  atLeast("GET /v1/models, to a bare Node server", 0.5, "", ratio(of("models", "gateway"), of("models", "bare-node"))),
  atLeast("hold + settlement pairs", 20_000, "/s", of("pairs", "gateway")),
  atMost("Node CPU per pair", 25, " µs", of("pairs.cpu", "gateway")),
  atMost("selective search in 1,000,000 messages, p95", 50, " ms", of("search.selective", "gateway")),
  atMost(
    "selective search, to that in a tenth",
    2,
    "",
    ratio(of("search.selective", "gateway"), of("search.tenth", "gateway"))
  ),
  atMost("search for a common word, the first time, p95", 250, " ms", of("search.first", "gateway")),
  atMost("search for a common word, again, p95", 250, " ms", of("search.common", "gateway")),
  atMost("a turn's own cost, from message to response, median", 25, " ms", of("turn", "gateway")),
  atMost("an idle WebSocket, of 10,000 in one process", 15, " KB", of("socket", "gateway")),
  atLeast("client abort mid-stream stops the upstream within 1 s", 100, " %", of("abort.stream", "gateway")),
  atLeast("client abort before the answer stops it within 1 s", 100, " %", of("abort.waiting", "gateway")),
  atMost("resident memory under JSON load, Postgres", 200, " MB", of("json.resident", "gateway")),
  atMost("resident memory under JSON load, embedded", 450, " MB", of("embedded.resident", "gateway")),
  atMost("start to ready, Postgres", 1500, " ms", of("start", "gateway")),
  atMost("start to ready, embedded, second start", 3000, " ms", of("embedded.start", "gateway"))
]
