import { Option, Schema } from "effect"
import type { ToolCall } from "../../domain/completion/ChatMessage.ts"
import { attach, payloadOf } from "../../domain/completion/Continuation.ts"
import type { Metadata, PartOf } from "./Sdk.ts"

const KeptMetadata = Schema.Record(Schema.String, Schema.JsonObject)

/** What a provider has to get back with a call: what it said of it, and what it thought before, with its signatures. */
const Kept = Schema.Struct({
  sdk: Schema.Struct({
    /** Nobody else's: it would be refused, or worse, believed. */
    provider: Schema.String,
    before: Schema.Array(Schema.Struct({ text: Schema.String, metadata: KeptMetadata })),
    metadata: Schema.optionalKey(KeptMetadata)
  })
})

const decode = Schema.decodeUnknownOption(Kept)

/** Metadata as JSON has it: the SDK's may have fields without a value. */
const plain = Schema.decodeUnknownOption(Schema.fromJsonString(KeptMetadata))

/** Follows what a model thinks and puts what has to come back into the ids of its calls. Mutable, one per answer. */
export class Keeper {
  readonly #provider: string
  #before = new Map<string, { text: string; metadata: Metadata }>()

  constructor(provider: string) {
    this.#provider = provider
  }

  /** A piece of a thought, with what the provider says of it; later words count. */
  thought(id: string, text: string, metadata: Metadata | undefined): void {
    const known = this.#before.get(id) ?? { text: "", metadata: {} }
    known.text += text
    for (const [name, fields] of Object.entries(metadata ?? {})) {
      known.metadata[name] = { ...known.metadata[name], ...fields }
    }
    this.#before.set(id, known)
  }

  /** The id for the client. */
  call(id: string, metadata: Metadata | undefined): string {
    const before = [...this.#before.values()].flatMap(({ metadata, text }) =>
      Option.match(kept(metadata), { onNone: () => [], onSome: (metadata) => [{ text, metadata }] })
    )
    this.#before = new Map()
    const own = Option.getOrUndefined(kept(metadata))
    if (before.length === 0 && own === undefined) return id
    return attach(id, { sdk: { provider: this.#provider, before, ...(own === undefined ? {} : { metadata: own }) } })
  }
}

const kept = (metadata: Metadata | undefined) =>
  metadata === undefined || Object.values(metadata).every((fields) => Object.keys(fields).length === 0)
    ? Option.none()
    : plain(JSON.stringify(metadata))

/** What came with a call from this provider: the thoughts before it, and what was said of itself. */
export const keptWith = (
  { id }: ToolCall,
  provider: string
): { readonly thoughts: ReadonlyArray<PartOf<"assistant">>; readonly metadata: Metadata | undefined } => {
  const found = Option.getOrUndefined(Option.flatMap(payloadOf(id), decode))?.sdk
  if (found?.provider !== provider) return { thoughts: [], metadata: undefined }
  return {
    thoughts: found.before.map(({ metadata, text }) => ({ type: "reasoning", text, providerOptions: metadata })),
    metadata: found.metadata
  }
}
