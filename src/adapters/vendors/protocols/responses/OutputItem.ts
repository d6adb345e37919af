import { Option, Result, Schema } from "effect"
import type { SealedReasoning } from "./SealedReasoning.ts"

/** One item of an answer. Items of kinds that nobody asked for (searches, other tools of the vendor's) are `Other`. */
export type OutputItem = MessageItem | ReasoningItem | CallItem | { readonly _tag: "Other" }

export interface MessageItem {
  readonly _tag: "Message"
  /** All its parts of text as one. Undefined: it has none. */
  readonly text: string | undefined
  readonly refusal: string | undefined
}

export interface ReasoningItem {
  readonly _tag: "Reasoning"
  /** The pieces that the vendor shows: summaries, or for some models what was thought itself. */
  readonly texts: ReadonlyArray<string>
  /** Undefined: the vendor gave nothing that it would take back. */
  readonly sealed: SealedReasoning | undefined
}

export interface CallItem {
  readonly _tag: "Call"
  readonly id: string
  readonly name: string
  readonly arguments: string
}

export const readOutputItem = (item: unknown): Result.Result<OutputItem, Schema.SchemaError> =>
  Result.flatMap(decodeKind(item), ({ type }): Result.Result<OutputItem, Schema.SchemaError> => {
    switch (type) {
      case "message":
        return Result.map(decodeMessage(item), readMessage)
      case "reasoning":
        return Result.map(decodeReasoning(item), readReasoning)
      case "function_call":
        return Result.map(decodeCall(item), ({ arguments: args, call_id, name }) => ({
          _tag: "Call",
          id: call_id,
          name,
          arguments: args
        }))
      default:
        return Result.succeed({ _tag: "Other" })
    }
  })

const Maybe = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const decodeKind = Schema.decodeUnknownResult(Schema.Struct({ type: Schema.String }))

const Message = Schema.Struct({
  content: Schema.Array(
    Schema.Struct({ type: Schema.String, text: Maybe(Schema.String), refusal: Maybe(Schema.String) })
  )
})

const decodeMessage = Schema.decodeUnknownResult(Message)

const readMessage = ({ content }: typeof Message.Type): MessageItem => ({
  _tag: "Message",
  text: joined(content.flatMap(({ text, type }) => (type === "output_text" && text != null ? [text] : []))),
  refusal: joined(content.flatMap(({ refusal, type }) => (type === "refusal" && refusal != null ? [refusal] : [])))
})

const joined = (texts: ReadonlyArray<string>): string | undefined => (texts.length === 0 ? undefined : texts.join(""))

const Texts = Maybe(Schema.Array(Schema.Struct({ text: Schema.String })))

const Reasoning = Schema.Struct({
  id: Maybe(Schema.String),
  summary: Texts,
  content: Texts,
  encrypted_content: Maybe(Schema.String)
})

const decodeReasoning = Schema.decodeUnknownResult(Reasoning)

const readReasoning = ({ content, encrypted_content, id, summary }: typeof Reasoning.Type): ReasoningItem => ({
  _tag: "Reasoning",
  texts: [...(summary ?? []), ...(content ?? [])].map(({ text }) => text),
  sealed: Option.getOrUndefined(
    Option.all({ id: some(id), encrypted_content: some(encrypted_content) }).pipe(
      Option.map((sealed) => ({
        ...sealed,
        summary: (summary ?? []).map(({ text }) => ({ type: "summary_text" as const, text }))
      }))
    )
  )
})

const some = (text: string | null | undefined): Option.Option<string> =>
  text == null || text === "" ? Option.none() : Option.some(text)

const decodeCall = Schema.decodeUnknownResult(
  Schema.Struct({ call_id: Schema.NonEmptyString, name: Schema.NonEmptyString, arguments: Schema.String })
)
