import { Context } from "effect"
import type { Caller } from "../../../domain/identity/ApiKey.ts"
import type { RateDecision } from "../../../domain/ratelimit/RatePolicy.ts"

/**
 * What is known of the request being answered. One mutable record each, made by the edge: whatever happens later, the
 * answer's headers and the log line have it.
 */
export class RequestState {
  readonly id: string
  caller: Caller | undefined
  rate: RateDecision | undefined
  /** The model asked for, once the body is read. */
  model: string | undefined
  /** Of the answer, once there is one. */
  status = 500

  constructor(id: string) {
    this.id = id
  }
}

export const CurrentRequest = Context.Reference<RequestState>("gateway/http/CurrentRequest", {
  defaultValue: () => new RequestState("none")
})
