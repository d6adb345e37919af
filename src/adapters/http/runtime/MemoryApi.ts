import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Memory, MemoryChanges, MemorySource, NewMemory } from "../../../domain/memory/Memory.ts"
import { numbersInQuery } from "./Described.ts"
import { RefusesBy } from "./envelopes/Envelope.ts"
import { NotFoundWire } from "./envelopes/NotFoundEnvelope.ts"
import { refuseByValidation, ValidationWire } from "./envelopes/ValidationEnvelope.ts"

/** Of one answer. */
const longestPage = 1_000

/** A filter by more would cost more than whole lists. */
const mostTags = 50

const Tags = Schema.String.pipe(
  Schema.annotateKey({ description: "Comma-separated; memories that have any of them. At most 50." }),
  Schema.check(Schema.makeFilter((text) => text.split(",").length <= mostTags || `at most ${mostTags} tags`))
)

const Filters = {
  tags: Schema.optionalKey(Tags),
  source: Schema.optionalKey(
    MemorySource.pipe(Schema.annotateKey({ description: "A memory that names no source is the user's." }))
  ),
  pinned: Schema.optionalKey(
    Schema.Boolean.pipe(Schema.annotateKey({ description: "A memory that says nothing of it is not pinned." }))
  )
}

const One = Schema.Struct({ ok: Schema.Literal(true), memory: Memory })

const Id = { id: Schema.String }

const TooLarge = ValidationWire.annotate({
  identifier: "ServiceValidationError413",
  description: "The body is larger than 1 MiB.",
  httpApiStatus: 413
})

/** Memories (section 4.5). Memories are listed the last changed first. */
export const MemoryApi = HttpApiGroup.make("memory")
  .add(
    HttpApiEndpoint.get("listMemories", "/api/memory", {
      query: {
        ...Filters,
        limit: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThan(0), Schema.isLessThanOrEqualTo(longestPage))),
        offset: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)))
      },
      success: Schema.Struct({
        ok: Schema.Literal(true),
        memories: Schema.Array(Memory),
        count: Schema.Int.annotate({ description: "How many this answer has." })
      }),
      error: [ValidationWire]
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "listMemories",
        summary: "list memories",
        transform: numbersInQuery({
          limit: { minimum: 1, maximum: longestPage, default: 100 },
          offset: { minimum: 0, default: 0 }
        })
      })
    ),
    HttpApiEndpoint.get("countMemories", "/api/memory/count", {
      query: Filters,
      success: Schema.Struct({ ok: Schema.Literal(true), count: Schema.Int }),
      error: [ValidationWire]
    }).annotateMerge(OpenApi.annotations({ identifier: "countMemories", summary: "count memories" })),
    HttpApiEndpoint.get("getMemory", "/api/memory/:id", {
      params: Id,
      success: One,
      error: [NotFoundWire]
    }).annotateMerge(OpenApi.annotations({ identifier: "getMemory", summary: "one memory" })),
    HttpApiEndpoint.post("createMemory", "/api/memory", {
      payload: NewMemory,
      success: One.pipe(HttpApiSchema.status(201)),
      error: [ValidationWire, TooLarge]
    }).annotateMerge(OpenApi.annotations({ identifier: "createMemory", summary: "create a memory" })),
    HttpApiEndpoint.put("updateMemory", "/api/memory/:id", {
      params: Id,
      payload: MemoryChanges,
      success: One,
      error: [ValidationWire, NotFoundWire, TooLarge]
    }).annotateMerge(
      OpenApi.annotations({
        identifier: "updateMemory",
        summary: "change a memory",
        description:
          "Changes only what is given, at least something: tags take the place of the old ones, fields of the " +
          "metadata are put beside or over them."
      })
    ),
    HttpApiEndpoint.delete("deleteMemory", "/api/memory/:id", {
      params: Id,
      success: Schema.Struct({ ok: Schema.Literal(true), message: Schema.String }),
      error: [NotFoundWire]
    }).annotateMerge(OpenApi.annotations({ identifier: "deleteMemory", summary: "delete a memory" }))
  )
  .annotate(RefusesBy, refuseByValidation)
