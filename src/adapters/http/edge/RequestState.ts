import type * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Context } from "effect"
import type { Caller } from "../../../domain/identity/ApiKey.ts"
import type { RateDecision } from "../../../domain/ratelimit/RatePolicy.ts"

/** A request as Node has it. */
export type Source = ReturnType<typeof NodeHttpServerRequest.toIncomingMessage>

/**
 * What is known of the request being answered. One mutable record each, made by the edge: whatever happens later, the
 * answer's headers and the log line have it.
 */
export class RequestState {
  readonly id: string
  /** Epoch milliseconds. */
  readonly started: number
  caller: Caller | undefined
  rate: RateDecision | undefined
  /** The model asked for, once the body is read. */
  model: string | undefined
  /** Of the answer, once there is one. */
  status = 500
  readonly #forPages: Readonly<Record<string, string>>

  /** `forPages`: the headers by which a page of another origin may read the answer. */
  constructor(id: string, started: number, forPages: Readonly<Record<string, string>> = {}) {
    this.id = id
    this.started = started
    this.#forPages = forPages
  }

  /**
   * What every answer says beside itself, streams included, which write their heads on their own: the request's id, what
   * a page of another origin needs, and the account's rate window where one applies.
   */
  get headers(): Record<string, string> {
    return this.rate === undefined
      ? { "x-request-id": this.id, ...this.#forPages }
      : {
          "x-request-id": this.id,
          ...this.#forPages,
          "ratelimit-limit": String(this.rate.limit),
          "ratelimit-remaining": String(this.rate.remaining),
          "ratelimit-reset": String(this.rate.resetSeconds)
        }
  }
}

/** The state of the request being answered, for what the router leads to. */
export const CurrentRequest = Context.Reference<RequestState>("gateway/http/CurrentRequest", {
  defaultValue: () => new RequestState("", 0)
})
