import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { RefusesBy } from "./envelopes/Envelope.ts"
import { refuseByValidation, ValidationWire } from "./envelopes/ValidationEnvelope.ts"

const Filters = { source: Schema.optionalKey(Schema.Literals(["user", "system"])) }

/** Memories (section 4.5). */
export const MemoryApi = HttpApiGroup.make("memory")
  .add(
    HttpApiEndpoint.get("countMemories", "/api/memory/count", {
      query: Filters,
      success: Schema.Struct({ ok: Schema.Literal(true), count: Schema.Int }),
      error: [ValidationWire]
    }).annotateMerge(OpenApi.annotations({ identifier: "countMemories", summary: "count memories" }))
  )
  .annotate(RefusesBy, refuseByValidation)
