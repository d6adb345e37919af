import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Memories } from "../../../application/memory/Memories.ts"
import type { Memory, MemoryFilter } from "../../../domain/memory/Memory.ts"
import type { MemoryNotFound, MetadataTooLarge } from "../../../domain/memory/MemoryErrors.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { brief } from "./envelopes/MessageEnvelope.ts"
import { notFoundEnvelope } from "./envelopes/NotFoundEnvelope.ts"
import { validationEnvelope } from "./envelopes/ValidationEnvelope.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const MemoryHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "memory",
  Effect.fnUntraced(function* (handlers) {
    const memories = yield* Memories

    return handlers
      .handle(
        "listMemories",
        Effect.fnUntraced(function* ({ query: { limit = usualPage, offset = 0, ...query } }) {
          const { id } = yield* CurrentWorkspace
          const found = yield* memories.list(id, filterOf(query), { limit, offset })
          return { ok, memories: found, count: found.length }
        })
      )
      .handle(
        "countMemories",
        Effect.fnUntraced(function* ({ query }) {
          const { id } = yield* CurrentWorkspace
          return { ok, count: yield* memories.count(id, filterOf(query)) }
        })
      )
      .handle("getMemory", ({ params }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => memories.find(id, params.id)).pipe(
          Effect.map(one),
          Effect.catchTag("MemoryNotFound", notFound)
        )
      )
      .handle("createMemory", ({ payload }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => memories.create(id, payload)).pipe(Effect.map(one))
      )
      .handle("updateMemory", ({ params, payload }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => memories.update(id, params.id, payload)).pipe(
          Effect.map(one),
          Effect.catchTags({ MemoryNotFound: notFound, MetadataTooLarge: tooLarge })
        )
      )
      .handle("deleteMemory", ({ params }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => memories.remove(id, params.id)).pipe(
          Effect.as({ ok, message: "Memory deleted successfully" }),
          Effect.catchTag("MemoryNotFound", notFound)
        )
      )
  })
)

const ok = true as const

const usualPage = 100

const one = (memory: Memory) => ({ ok, memory })

const filterOf = ({
  pinned,
  source,
  tags = ""
}: {
  readonly tags?: string
  readonly source?: Exclude<MemoryFilter["source"], undefined>
  readonly pinned?: boolean
}): MemoryFilter => ({
  tags: [...new Set(tags.split(",").map((tag) => tag.trim()))].filter((tag) => tag !== ""),
  source,
  pinned
})

const notFound = ({ id, message }: MemoryNotFound) =>
  Effect.succeed(
    notFoundEnvelope({
      code: "memory_not_found",
      message: brief(message),
      scope: "memory",
      context: { id: brief(id) }
    })
  )

const tooLarge = ({ message }: MetadataTooLarge) =>
  Effect.succeed(validationEnvelope([{ code: "too_big", path: ["metadata"], message }]))
