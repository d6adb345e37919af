import type { ContenderName } from "../contenders/Contender.ts"

/** Every figure a run can take, by what it is called in the results, with how a person reads it. */
export const metrics = {
  json: "JSON, requests/s",
  "json.cpu": "JSON, CPU per request, µs",
  "json.p99": "JSON, p99, ms",
  "json.resident": "JSON, resident memory at its peak, MB",
  "json.postgres": "JSON, CPU of Postgres per request, µs",
  burst: "53 frames at once, streams/s",
  "burst.cpu": "53 frames at once, CPU per stream, µs",
  "burst.postgres": "53 frames at once, CPU of Postgres per stream, µs",
  late: "53 frames at once after 20 ms, streams/s",
  "late.cpu": "53 frames at once after 20 ms, CPU per stream, µs",
  paced: "53 frames, 20 ms apart, streams/s",
  "paced.cpu": "53 frames, 20 ms apart, CPU per stream, µs",
  "first-byte-1": "first byte, 1 connection, median ms",
  "first-byte-64": "first byte, 64 streams, median ms",
  models: "GET /v1/models, requests/s",
  pairs: "hold + settlement on one organization, pairs/s",
  "pairs.cpu": "hold + settlement, Node CPU per pair, µs",
  "pairs.alone": "hold + settlement, one at a time, ms",
  "search.tenth": "selective search in 100,000 messages, p95, ms",
  "search.selective": "selective search in 1,000,000 messages, p95, ms",
  "search.first": "search for a common word, the first time, in 1,000,000 messages, p95, ms",
  "search.common": "search for a common word, again and further pages, p95, ms",
  "search.sessions": "search for sessions with a common word, again, p95, ms",
  turn: "a turn's own cost, from message to response, median ms",
  "turns.many": "200 turns at once on two processes, until the last response, ms",
  socket: "resident memory of an idle WebSocket, of 10,000, KB",
  "socket.answer": "a frame and its answer beside 10,000 idle WebSockets, ms",
  "abort.stream": "client left mid-stream: upstream stopped within 1 s, %",
  "abort.waiting": "client left before the answer: upstream stopped within 1 s, %",
  "abort.stream.slowest": "client left mid-stream: slowest stop that was seen, ms",
  "abort.waiting.slowest": "client left before the answer: slowest stop that was seen, ms",
  start: "start to ready on Postgres, ms",
  "embedded.start": "start to ready embedded, second start, ms",
  "embedded.json": "JSON embedded, requests/s",
  "embedded.resident": "JSON embedded, resident memory at its peak, MB"
} as const
export type Metric = keyof typeof metrics

export interface Measurement {
  readonly metric: Metric
  readonly contender: ContenderName
  readonly round: number
  readonly value: number
}

export const median = (values: ReadonlyArray<number>): number | undefined => {
  const sorted = [...values].sort((a, b) => a - b)
  const upper = sorted[sorted.length >> 1]
  const lower = sorted[(sorted.length - 1) >> 1]
  return upper === undefined || lower === undefined ? undefined : (upper + lower) / 2
}

export type Medians = (metric: Metric, contender: ContenderName) => number | undefined

export const mediansOf =
  (measurements: ReadonlyArray<Measurement>): Medians =>
  (metric, contender) =>
    median(measurements.filter((one) => one.metric === metric && one.contender === contender).map((one) => one.value))
