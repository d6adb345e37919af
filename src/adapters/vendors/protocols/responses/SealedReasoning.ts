import { Option, Schema } from "effect"
import { attach, payloadOf } from "../../../../domain/completion/Continuation.ts"
import type { Form } from "./Form.ts"

/** A reasoning item that only the vendor can read, as the vendor wants it back. */
export const SealedReasoning = Schema.Struct({
  id: Schema.NonEmptyString,
  encrypted_content: Schema.NonEmptyString,
  summary: Schema.Array(Schema.Struct({ type: Schema.Literal("summary_text"), text: Schema.String }))
})
export type SealedReasoning = typeof SealedReasoning.Type

/**
 * The tag tells it apart from what other wires attach to the same ids. Each server opens only what it sealed, and refuses
 * the request otherwise; so what came from one does not go to the other.
 */
const Payload = Schema.Struct({
  wire: Schema.Literal("responses"),
  form: Schema.Literals(["platform", "subscription"]),
  reasoning: Schema.Array(SealedReasoning)
})

const decode = Schema.decodeUnknownOption(Payload)

/** The id of a call for the client, with what the model thought before it. */
export const withReasoning = (callId: string, reasoning: ReadonlyArray<SealedReasoning>, form: Form): string =>
  reasoning.length === 0 ? callId : attach(callId, { wire: "responses", form, reasoning } satisfies typeof Payload.Type)

/** The reasoning items that came with a call's id, to stand before the call. What others attached is dropped. */
export const sealedReasoning = (id: string, form: Form): ReadonlyArray<object> =>
  Option.match(Option.flatMap(payloadOf(id), decode), {
    onNone: () => [],
    onSome: (payload) =>
      payload.form === form ? payload.reasoning.map((item) => ({ type: "reasoning", ...item })) : []
  })
