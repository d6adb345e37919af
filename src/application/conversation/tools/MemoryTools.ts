import { Effect, Option, Schema } from "effect"
import * as Base64Url from "effect/encoding/Base64Url"
import { contentsOf, type Memory, MemoryId, NewMemory } from "../../../domain/memory/Memory.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"
import { MemoryStore } from "../../ports/storage/MemoryStore.ts"
import type { ToolCallContext } from "../AgentTool.ts"
import { internalTool } from "./InternalTool.ts"
import { done, found } from "./Outcomes.ts"

const { content, tags } = NewMemory.fields

/** Saving twice what one call asked for saves it once: its id is made of the call. */
export const saveMemory = Effect.map(MemoryStore, (store) =>
  internalTool({
    name: "save_memory",
    description:
      "Keeps a short note for later conversations: a lasting fact or preference, one in each memory, with up to ten " +
      "tags by which it is found again. Never keep passwords, keys or other secrets.",
    parameters: Schema.Struct({
      content: content.annotate({ description: "The note, understandable without this conversation." }),
      tags
    }),
    isIdempotent: true,
    run: Effect.fnUntraced(function* (memory, call) {
      const { workspace } = call.turn
      const id = yield* idOf(call, memory.content)
      if (Option.isNone(yield* store.find(workspace, id))) {
        yield* store.insert(workspace, id, contentsOf({ ...memory, metadata: { source: "system" } }))
      }
      return done(`Saved as memory ${id}.`)
    })
  })
)

const idOf = ({ callId, turn }: ToolCallContext, content: string): Effect.Effect<MemoryId> => {
  const bytes = new TextEncoder().encode(JSON.stringify([turn.session, turn.turn, callId, content]))
  return Effect.map(
    Effect.promise(() => crypto.subtle.digest("SHA-256", bytes)),
    (digest) => MemoryId.make(Base64Url.encode(new Uint8Array(digest)).slice(0, 21))
  )
}

/** Memories that one search looks through, the last changed ones; in pages of so many. */
const mostSearched = 5_000
const page = 1_000

export const searchMemory = Effect.map(MemoryStore, (store) => {
  const all = Effect.fnUntraced(function* (workspace: OrganizationId, tags: ReadonlyArray<string>) {
    const listed: Array<Memory> = []
    for (let offset = 0; offset < mostSearched; offset += page) {
      const read = yield* store.list(workspace, { tags, source: undefined, pinned: undefined }, { limit: page, offset })
      listed.push(...read)
      if (read.length < page) break
    }
    return listed
  })

  return internalTool({
    name: "search_memory",
    description:
      "Finds what was kept from earlier conversations: memories that have the words of the query, those with the most " +
      "of them first. Without a query the last changed ones.",
    parameters: Schema.Struct({
      query: Schema.optionalKey(
        Schema.String.check(Schema.isMaxLength(500)).annotate({ description: "Words, in whatever case and order." })
      ),
      tags: Schema.optionalKey(
        Schema.Array(Schema.String)
          .check(Schema.isMaxLength(10))
          .annotate({ description: "Only memories with any of these tags." })
      ),
      limit: Schema.optionalKey(
        Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 50 })).annotate({
          description: "How many at most; 10 if not given."
        })
      )
    }),
    isIdempotent: true,
    run: Effect.fnUntraced(function* ({ limit = 10, query = "", tags = [] }, { turn }) {
      const words = wordsOf(query)
      const ranked = (yield* all(turn.workspace, tags))
        .map((memory) => ({ memory, rank: rankOf(memory, words) }))
        .filter(({ rank }) => words.length === 0 || rank > 0)
        .toSorted((a, b) => b.rank - a.rank)
      if (ranked.length === 0) return done("No memory was found.")
      const lines = ranked.slice(0, limit).map(({ memory }) => lineOf(memory))
      return done(found(ranked.length, "memories", lines))
    })
  })
})

const wordsOf = (query: string): ReadonlyArray<string> => [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]+/gu))]

/** How many of the words are in it. */
const rankOf = ({ content, tags }: Memory, words: ReadonlyArray<string>): number => {
  const text = [content, ...tags].join("\n").toLowerCase()
  return words.filter((word) => text.includes(word)).length
}

const lineOf = ({ content, id, tags, updatedAt }: Memory): string => {
  const tagged = tags.length === 0 ? "" : `, tags: ${tags.join(", ")}`
  return `- ${id} (${new Date(updatedAt).toISOString().slice(0, 10)}${tagged}): ${content}`
}
