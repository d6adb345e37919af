import type { Dispatcher } from "undici"
import type { Egress } from "../../application/ports/runtime/Egress.ts"
import type { Exchange } from "./Exchange.ts"

/**
 * Posts a body by `fetch` and reports the answer to an exchange as undici does it. For the few addresses that only a
 * `fetch` may call; it costs more than undici's own dispatch.
 */
export const dispatchBy = (
  fetch: Egress["Service"]["fetch"],
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  exchange: Exchange
): void => {
  const controller = new Controller()
  exchange.onRequestStart(controller)
  const run = async () => {
    const answer = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal: controller.signal })
    exchange.onResponseStart(controller, answer.status, Object.fromEntries(answer.headers))
    const reader = answer.body?.getReader()
    for (;;) {
      await controller.resumed
      const piece = await reader?.read()
      if (piece === undefined || piece.done) break
      exchange.onResponseData(controller, Buffer.from(piece.value))
    }
    exchange.onResponseEnd()
  }
  run().catch((error: unknown) => exchange.onResponseError(controller, causeOf(error)))
}

/** What an exchange holds its answer by. */
class Controller implements Dispatcher.DispatchController {
  readonly #abort = new AbortController()
  #paused: PromiseWithResolvers<void> | undefined

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  get aborted(): boolean {
    return this.signal.aborted
  }

  get reason(): Error | null {
    const { reason } = this.signal
    return reason instanceof Error ? reason : null
  }

  get paused(): boolean {
    return this.#paused !== undefined
  }

  /** Completes at once unless the exchange has enough for now. */
  get resumed(): Promise<void> | undefined {
    return this.#paused?.promise
  }

  abort(reason: Error): void {
    this.#abort.abort(reason)
    this.resume()
  }

  pause(): void {
    this.#paused ??= Promise.withResolvers()
  }

  resume(): void {
    this.#paused?.resolve()
    this.#paused = undefined
  }
}

/** `fetch` says only that it failed: why is the cause of that. */
const causeOf = (error: unknown): Error =>
  error instanceof Error
    ? error instanceof TypeError && error.cause instanceof Error
      ? error.cause
      : error
    : new Error(String(error))
