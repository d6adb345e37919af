import { Schema } from "effect"
import { MessageRole } from "../../domain/conversation/Message.ts"
import { folded } from "../../domain/search/Phrase.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { storable } from "./ConversationColumns.ts"

/** A phrase in a workspace, as it is compared: bytes, which is several times as fast as texts are. */
export const Searched = {
  workspace: OrganizationId,
  /** Folded. */
  phrase: Schema.Uint8Array,
  /** As it stands; null when every case of it looks the same. */
  cased: Schema.NullOr(Schema.Uint8Array),
  role: Schema.NullOr(MessageRole)
}
export type Searched = Schema.Struct.Type<typeof Searched>

/** Those of the phrase that the index is asked for, as an array of Postgres; null when everything is read instead. */
export const Trigrams = Schema.NullOr(Schema.String)
export type Trigrams = typeof Trigrams.Type

export const searched = (workspace: OrganizationId, text: string, role: MessageRole | undefined): Searched => {
  const phrase = storable(text)
  const encoder = new TextEncoder()
  const hasCase = phrase !== folded(phrase) || phrase !== phrase.toUpperCase()
  return {
    workspace,
    phrase: encoder.encode(folded(phrase)),
    cased: hasCase ? encoder.encode(phrase) : null,
    role: role ?? null
  }
}
