import { Schema } from "effect"
import type { Contender } from "../contenders/Contender.ts"

export interface LoadSpec {
  readonly contender: Contender
  readonly path: string
  /** Absent: GET. */
  readonly body?: string
  readonly connections: number
  readonly seconds: number
}

/** One bounded load. A run with any failed request is no measurement, so a result stands for successes only. */
export interface LoadResult {
  readonly requests: number
  readonly requestsPerSecond: number
  readonly meanMillis: number
  readonly p99Millis: number
}

export class LoadFailed extends Schema.TaggedError<LoadFailed>()("LoadFailed", {
  contender: Schema.String,
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `load on ${this.contender}${this.path}: ${this.reason}`
  }
}
