import type { Usage } from "../billing/Usage.ts"
import type { Choice, Completion, FinishReason, ServedTier } from "./Completion.ts"
import type { CompletionEvent, ToolCallDelta } from "./CompletionEvent.ts"

/**
 * The fold of a stream's events into the whole answer, for vendors that only stream. Mutable on purpose, one per
 * request: it is fed piece by piece.
 */
export class Folded {
  readonly #choices = new Map<number, FoldedChoice>()
  #serviceTier: ServedTier | undefined
  #usage: Usage | undefined

  add(event: CompletionEvent): void {
    if (event._tag === "Usage") {
      if (event.isOfInput !== true) this.#usage = event.usage
      return
    }
    const choice = this.#choices.get(event.index) ?? new FoldedChoice()
    this.#choices.set(event.index, choice)
    choice.content.add(event.content)
    choice.reasoning.add(event.reasoning)
    choice.refusal.add(event.refusal)
    for (const call of event.toolCalls ?? []) choice.call(call)
    choice.finishReason = event.finishReason ?? choice.finishReason
    this.#serviceTier = event.serviceTier ?? this.#serviceTier
  }

  /** The answer so far: complete once every choice has a reason why it ended. */
  get completion(): Completion {
    return {
      choices: inOrder(this.#choices).map(([index, choice]) => choice.at(index)),
      ...(this.#serviceTier === undefined ? {} : { serviceTier: this.#serviceTier }),
      ...(this.#usage === undefined ? {} : { usage: this.#usage })
    }
  }
}

class FoldedChoice {
  readonly content = new Text()
  readonly reasoning = new Text()
  readonly refusal = new Text()
  readonly #calls = new Map<number, FoldedCall>()
  finishReason: FinishReason | null = null

  call(piece: ToolCallDelta): void {
    const call = this.#calls.get(piece.index) ?? { id: "", name: "", arguments: new Text() }
    this.#calls.set(piece.index, call)
    call.id = piece.id ?? call.id
    call.name = piece.name ?? call.name
    call.arguments.add(piece.arguments)
  }

  at(index: number): Choice {
    const reasoning = this.reasoning.whole
    const refusal = this.refusal.whole
    const toolCalls = inOrder(this.#calls).map(([, call]) => ({
      id: call.id,
      type: "function" as const,
      function: { name: call.name, arguments: call.arguments.whole ?? "" }
    }))
    return {
      index,
      finishReason: this.finishReason,
      content: this.content.whole ?? null,
      ...(reasoning === undefined ? {} : { reasoning }),
      ...(refusal === undefined ? {} : { refusal }),
      ...(toolCalls.length === 0 ? {} : { toolCalls })
    }
  }
}

interface FoldedCall {
  id: string
  name: string
  readonly arguments: Text
}

/** No text is another thing than an empty one. */
class Text {
  readonly #pieces: Array<string> = []

  add(piece: string | undefined): void {
    if (piece !== undefined) this.#pieces.push(piece)
  }

  get whole(): string | undefined {
    return this.#pieces.length === 0 ? undefined : this.#pieces.join("")
  }
}

const inOrder = <A>(indexed: ReadonlyMap<number, A>): ReadonlyArray<readonly [number, A]> =>
  [...indexed].toSorted(([one], [other]) => one - other)
