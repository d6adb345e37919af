import type { Completion } from "./Completion.ts"
import type { CompletionEvent } from "./CompletionEvent.ts"

/**
 * The fold of a stream's events into what metering needs: the text that left the vendor, for the case that it reports
 * no usage or the stream is cut. Mutable on purpose, one per request: it is fed on the hot path.
 */
export class Delivered {
  readonly #pieces: Array<string> = []
  readonly #reasoning: Array<string> = []

  add(event: CompletionEvent): void {
    if (event._tag === "Usage") return
    if (event.content !== undefined) this.#pieces.push(event.content)
    if (event.refusal !== undefined) this.#pieces.push(event.refusal)
    if (event.reasoning !== undefined) this.#reasoning.push(event.reasoning)
    for (const call of event.toolCalls ?? []) {
      if (call.name !== undefined) this.#pieces.push(call.name)
      if (call.arguments !== undefined) this.#pieces.push(call.arguments)
    }
  }

  addWhole(completion: Completion): void {
    for (const choice of completion.choices) {
      if (choice.content !== null) this.#pieces.push(choice.content)
      if (choice.refusal !== undefined) this.#pieces.push(choice.refusal)
      if (choice.reasoning !== undefined) this.#reasoning.push(choice.reasoning)
      for (const call of choice.toolCalls ?? []) this.#pieces.push(call.function.name, call.function.arguments)
    }
  }

  get isEmpty(): boolean {
    return this.#pieces.length === 0 && this.#reasoning.length === 0
  }

  /** The answer's text so far, tool calls included. */
  get text(): string {
    return this.#pieces.join("")
  }

  get reasoning(): string {
    return this.#reasoning.join("")
  }
}
