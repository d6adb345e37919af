import { Schema } from "effect"

/** The workspace has no memory of this id. */
export class MemoryNotFound extends Schema.TaggedError<MemoryNotFound>()("MemoryNotFound", { id: Schema.String }) {
  override get message() {
    return `There is no memory ${JSON.stringify(this.id)}.`
  }
}

/** The old and the new fields of a memory's metadata are too much together. */
export class MetadataTooLarge extends Schema.TaggedError<MetadataTooLarge>()("MetadataTooLarge", {
  /** Bytes of JSON. */
  limit: Schema.Int
}) {
  override get message() {
    return `Expected at most ${this.limit} bytes of JSON, together with the fields that are there.`
  }
}
