import type { FinishReason, ServedTier } from "../../../../domain/completion/Completion.ts"
import type { CompletionEvent, Delta } from "../../../../domain/completion/CompletionEvent.ts"
import type { Ending } from "./Ending.ts"
import type { Form } from "./Form.ts"
import type { OutputItem } from "./OutputItem.ts"
import { type SealedReasoning, withReasoning } from "./SealedReasoning.ts"
import { readUsage } from "./Usage.ts"

/**
 * An answer while its items arrive, at their positions: piece by piece, or each at once when it is done. What an item
 * says when it is done is only told of if no piece of it was. Mutable on purpose, one per answer.
 */
export class Answer {
  readonly #form: Form
  /** Positions of items of which a piece was told: text, a refusal, reasoning, arguments. */
  readonly #told = new Set<number>()
  /** Which call of the answer stands at a position. */
  readonly #calls = new Map<number, number>()
  /** What the model thought since its last call. */
  #reasoning: ReadonlyArray<SealedReasoning> = []
  #lastText: string | undefined
  #lastReasoning: string | undefined

  constructor(form: Form) {
    this.#form = form
  }

  /** Several messages, such as one before the calls and one after, are one text with a blank line in between. */
  text(at: number, piece: string): CompletionEvent {
    const content = apart(this.#lastText, String(at), piece)
    this.#lastText = String(at)
    return this.#delta(at, { content })
  }

  refusal(at: number, refusal: string): CompletionEvent {
    return this.#delta(at, { refusal })
  }

  /** `part` tells the paragraphs of an item apart. */
  reasoning(at: number, part: string, piece: string): CompletionEvent {
    const reasoning = apart(this.#lastReasoning, `${at} ${part}`, piece)
    this.#lastReasoning = `${at} ${part}`
    return this.#delta(at, { reasoning })
  }

  arguments(at: number, piece: string): ReadonlyArray<CompletionEvent> {
    const index = this.#calls.get(at)
    return index === undefined ? [] : [this.#delta(at, { toolCalls: [{ index, arguments: piece }] })]
  }

  /** A call begins. Other items tell nothing at their beginning. */
  begin(at: number, item: OutputItem): ReadonlyArray<CompletionEvent> {
    if (item._tag !== "Call" || this.#calls.has(at)) return []
    const index = this.#calls.size
    this.#calls.set(at, index)
    const id = withReasoning(item.id, this.#reasoning, this.#form)
    this.#reasoning = []
    if (item.arguments !== "") this.#told.add(at)
    return [{ _tag: "Delta", index: 0, toolCalls: [{ index, id, name: item.name, arguments: item.arguments }] }]
  }

  done(at: number, item: OutputItem): ReadonlyArray<CompletionEvent> {
    switch (item._tag) {
      case "Message":
        return this.#told.has(at)
          ? []
          : [
              ...(item.text === undefined ? [] : [this.text(at, item.text)]),
              ...(item.refusal === undefined ? [] : [this.refusal(at, item.refusal)])
            ]
      case "Reasoning":
        if (item.sealed !== undefined) this.#reasoning = [...this.#reasoning, item.sealed]
        return this.#told.has(at) ? [] : item.texts.map((text, part) => this.reasoning(at, String(part), text))
      case "Call": {
        const begun = this.begin(at, item)
        return this.#told.has(at) || item.arguments === "" ? begun : this.arguments(at, item.arguments)
      }
      case "Other":
        return []
    }
  }

  end(ending: Ending): ReadonlyArray<CompletionEvent> {
    const usage = ending.usage == null ? undefined : readUsage(ending.usage)
    return [
      { _tag: "Delta", index: 0, finishReason: this.#finish(ending), ...tier(ending.service_tier) },
      ...(usage === undefined ? [] : [{ _tag: "Usage" as const, usage }])
    ]
  }

  #delta(at: number, said: Omit<Delta, "_tag" | "index">): CompletionEvent {
    this.#told.add(at)
    return { _tag: "Delta", index: 0, ...said }
  }

  /** Whatever else may cut an answer short (a bound of the vendor's, say) is most like its length. */
  #finish({ incomplete_details, status }: Ending): FinishReason {
    if (incomplete_details?.reason === "content_filter") return "content_filter"
    if (status === "incomplete") return "length"
    return this.#calls.size > 0 ? "tool_calls" : "stop"
  }
}

const apart = (last: string | undefined, now: string, piece: string): string =>
  last === undefined || last === now ? piece : `\n\n${piece}`

const tier = (served: string | null | undefined): { readonly serviceTier?: ServedTier } =>
  served === "priority" || served === "fast"
    ? { serviceTier: "priority" }
    : served === "default"
      ? { serviceTier: "default" }
      : {}
