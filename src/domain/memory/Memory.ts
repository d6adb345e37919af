import { Array, Result, Schema, SchemaTransformation } from "effect"
import { MetadataTooLarge } from "./MemoryErrors.ts"

/** A nanoid of 21 characters (decisions 8). */
export const MemoryId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{21}$/)).pipe(Schema.brand("MemoryId"))
export type MemoryId = typeof MemoryId.Type

/** Characters are Unicode code points, as everywhere in the bounds of memories (section 8). */
const Content = Schema.String.check(Schema.isMinCodePoints(1), Schema.isMaxCodePoints(10_000))

const Tag = Schema.String.pipe(
  Schema.decodeTo(
    Schema.String.check(Schema.isMinCodePoints(1), Schema.isMaxCodePoints(50)),
    SchemaTransformation.trim()
  )
)

const mostTags = 10

/** Trimmed and each of them once, in the order of their first places (decisions 8). */
const Tags = Schema.Array(Tag).pipe(
  Schema.decodeTo(
    Schema.Array(Schema.String).check(Schema.isMaxLength(mostTags)),
    SchemaTransformation.transform<ReadonlyArray<string>, ReadonlyArray<string>>({
      decode: Array.dedupe,
      encode: (tags) => tags
    })
  ),
  Schema.annotateKey({ description: "Up to 10, each of 1 to 50 characters; trimmed, and the same one only once." })
)

/** Whether the user made a memory, or the service for them. */
export const MemorySource = Schema.Literals(["user", "system"])
export type MemorySource = typeof MemorySource.Type

/** Of its JSON, in bytes: a page of a thousand memories must fit into an answer. */
const largestMetadata = 16 * 1024

/** Kept as it was given, whatever the further fields are. One without `source` is the user's, without `pinned` is not pinned. */
const Metadata = Schema.StructWithRest(
  Schema.Struct({ source: Schema.optionalKey(MemorySource), pinned: Schema.optionalKey(Schema.Boolean) }),
  [Schema.Record(Schema.String, Schema.Json)]
)
export type MemoryMetadata = typeof Metadata.Type

const fits = (metadata: MemoryMetadata): boolean =>
  new TextEncoder().encode(JSON.stringify(metadata)).byteLength <= largestMetadata

const FittingMetadata = Metadata.check(
  Schema.makeFilter((metadata) => fits(metadata) || `at most ${largestMetadata} bytes of JSON`)
)

/** What a memory is made from (section 4.5). */
export const NewMemory = Schema.Struct({
  content: Content,
  tags: Schema.optionalKey(Tags),
  metadata: Schema.optionalKey(FittingMetadata)
})
export type NewMemory = typeof NewMemory.Type

/** What is to change in one: at least something. */
export const MemoryChanges = Schema.Struct({
  content: Schema.optionalKey(Content),
  tags: Schema.optionalKey(Tags),
  metadata: Schema.optionalKey(FittingMetadata)
}).check(
  Schema.makeFilter(
    ({ content, metadata, tags }) =>
      content !== undefined || tags !== undefined || metadata !== undefined || "content, tags or metadata to change"
  )
)
export type MemoryChanges = typeof MemoryChanges.Type

/** What of a memory its user writes. */
export interface MemoryContents {
  readonly content: string
  readonly tags: ReadonlyArray<string>
  readonly metadata: MemoryMetadata
}

/** Something to remember (section 2.7). */
export const Memory = Schema.Struct({
  id: MemoryId,
  content: Schema.String,
  tags: Schema.Array(Schema.String),
  metadata: Metadata,
  /** Epoch milliseconds. */
  createdAt: Schema.Int,
  /** Epoch milliseconds; later than before with every change. */
  updatedAt: Schema.Int
}).annotate({ identifier: "Memory" })
export type Memory = typeof Memory.Type

export const contentsOf = ({ content, metadata = {}, tags = [] }: NewMemory): MemoryContents => ({
  content,
  tags,
  metadata
})

/** Changes only what is given: tags take the place of the old ones, fields of the metadata are put beside or over them. */
export const changed = (
  memory: MemoryContents,
  changes: MemoryChanges
): Result.Result<MemoryContents, MetadataTooLarge> => {
  const { content = memory.content, tags = memory.tags } = changes
  const metadata = { ...memory.metadata, ...changes.metadata }
  return fits(metadata)
    ? Result.succeed({ content, tags, metadata })
    : Result.fail(new MetadataTooLarge({ limit: largestMetadata }))
}

/** Which memories are meant; every condition must hold. */
export interface MemoryFilter {
  /** Any of these; with none, whatever the tags. */
  readonly tags: ReadonlyArray<string>
  readonly source: MemorySource | undefined
  readonly pinned: boolean | undefined
}

/** As filters see it. */
export const sourceOf = ({ source = "user" }: MemoryMetadata): MemorySource => source
export const isPinned = ({ pinned = false }: MemoryMetadata): boolean => pinned
