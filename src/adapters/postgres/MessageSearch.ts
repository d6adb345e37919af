import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import type { MessageSearch } from "../../application/ports/storage/Sessions.ts"
import { SessionId } from "../../domain/conversation/Session.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import * as CommonPhrases from "./CommonPhrases.ts"
import { fromRow, MessageRow } from "./ConversationColumns.ts"
import * as Patience from "./Patience.ts"
import { Searched, searched, Trigrams } from "./SearchedPhrase.ts"

/** Bytes. The index knows nothing shorter. */
const shortestIndexed = 3

/** Of a sample: a phrase that more of it has is counted first. */
const commonShare = 0.01

/** The same where so much of it has the trigrams that the index is asked for. */
const commonTrigrams = 0.05

/** Of a sample: where the index gives more of it, everything is read, which is faster then. */
const mostIndexed = 0.3

const Hit = Schema.Struct({ ...MessageRow.fields, sessionId: SessionId, position: Schema.Int })

const Page = { limit: Schema.Int, offset: Schema.Int }

/** A row of a page with the total of all; without a hit if the page has none. */
const Found = Schema.Struct({ total: SafeInt8, hit: Schema.NullOr(SafeInt8) })

/** Which messages of a range: those with the phrase in its own case, or the others. */
const Part = Schema.Tuple([Schema.Int, Schema.Boolean])

/**
 * Where messages have a phrase. One that few have is found by the index of trigrams; one that many have, or that is too
 * short for the index, is counted first (see `CommonPhrases`).
 *
 * A workspace may have come after the last statistics, which take it to be empty then: a row that has been found elsewhere
 * is looked up by itself (LATERAL with OFFSET 0), so that no plan can read the whole workspace for each of them.
 */
export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const common = yield* CommonPhrases.make
  const { longer } = yield* Patience.make

  const columns = sql.literal("m.session_id, m.position, m.role, m.text, m.body, m.created_at")

  const isExact = (cased: Uint8Array | null) =>
    cased === null
      ? sql.literal("true")
      : sql`(
          SELECT position(${cased} IN convert_to(m.text, 'UTF8')) > 0 FROM session_messages m
          WHERE m.number = t.number)`

  const ofRole = (role: string | null) => (role === null ? sql.literal("") : sql`AND t.role = ${role}`)

  const sampled = SqlSchema.findOne({
    Request: Schema.Struct({ workspace: OrganizationId, phrase: Schema.Uint8Array }),
    Result: Schema.Struct({ seen: SafeInt8, matched: SafeInt8, trigrams: Trigrams, share: Schema.Finite }),
    execute: ({ phrase, workspace }) => sql`
      SELECT seen, matched, trigrams::text AS trigrams, share FROM sample_messages(${workspace}, ${phrase})`
  })

  const rareMatches = SqlSchema.findAll({
    Request: Schema.Struct({ ...Searched, trigrams: Trigrams, ...Page }),
    Result: Found,
    execute: ({ cased, limit, offset, phrase, role, trigrams, workspace }) => sql`
      WITH matches AS MATERIALIZED (
        SELECT t.number, t.is_exact FROM messages_with(${workspace}, ${phrase}, ${trigrams}::bigint[], ${cased}::bytea) t
        WHERE true ${ofRole(role)})
      SELECT t.total, p.number AS hit FROM (SELECT count(*) AS total FROM matches) t LEFT JOIN (
        SELECT * FROM matches ORDER BY is_exact DESC, number DESC LIMIT ${limit} OFFSET ${offset}) p ON true
      ORDER BY p.is_exact DESC, p.number DESC`
  })

  const matchesOfSession = SqlSchema.findAll({
    Request: Schema.Struct({ ...Searched, session: SessionId, ...Page }),
    Result: Found,
    execute: ({ cased, limit, offset, phrase, role, session, workspace }) => sql`
      WITH matches AS MATERIALIZED (
        SELECT t.number, ${isExact(cased)} AS is_exact FROM (
          SELECT m.number FROM session_messages m
          WHERE m.organization_id = ${workspace} AND m.session_id = ${session} OFFSET 0) said, LATERAL (
          SELECT * FROM searched_texts t
          WHERE t.organization_id = ${workspace} AND t.number = said.number OFFSET 0) t
        WHERE position(${phrase} IN t.folded) > 0 ${ofRole(role)})
      SELECT t.total, p.number AS hit FROM (SELECT count(*) AS total FROM matches) t LEFT JOIN (
        SELECT * FROM matches ORDER BY is_exact DESC, number DESC LIMIT ${limit} OFFSET ${offset}) p ON true
      ORDER BY p.is_exact DESC, p.number DESC`
  })

  const hitsOf = SqlSchema.findAll({
    Request: Schema.Struct({ workspace: OrganizationId, numbers: Schema.fromJsonString(Schema.Array(Schema.Int)) }),
    Result: Hit,
    execute: ({ numbers, workspace }) => sql`
      SELECT ${columns} FROM jsonb_array_elements_text(${numbers}::jsonb) WITH ORDINALITY AS n (number, place), LATERAL (
        SELECT * FROM session_messages m
        WHERE m.number = n.number::bigint AND m.organization_id || '' = ${workspace} OFFSET 0) m
      ORDER BY n.place`
  })

  const exactInRanges = SqlSchema.findAll({
    Request: Schema.Struct({ ...Searched, ranges: Schema.fromJsonString(Schema.Array(Schema.Int)) }),
    Result: Schema.Struct({ range: Schema.Int, amount: SafeInt8 }),
    execute: ({ cased, phrase, ranges, role, workspace }) => sql`
      SELECT r.range, counted.amount FROM (
        SELECT r.item::int AS range FROM jsonb_array_elements_text(${ranges}::jsonb) AS r (item)) r, LATERAL (
        SELECT count(*) AS amount FROM searched_texts t
        WHERE t.organization_id = ${workspace} AND t.number >= r.range::bigint << 12
          AND t.number < (r.range + 1)::bigint << 12
          AND position(${phrase} IN t.folded) > 0 AND ${isExact(cased)} ${ofRole(role)}) counted`
  })

  const numbersInRanges = SqlSchema.findAll({
    Request: Schema.Struct({ ...Searched, parts: Schema.fromJsonString(Schema.Array(Part)), ...Page }),
    Result: Schema.Struct({ number: SafeInt8 }),
    execute: ({ cased, limit, offset, parts, phrase, role, workspace }) => sql`
      SELECT t.number FROM (
        SELECT (p.item->>0)::int AS range, (p.item->>1)::boolean AS is_exact
        FROM jsonb_array_elements(${parts}::jsonb) AS p (item)) p, LATERAL (
        SELECT t.number FROM searched_texts t
        WHERE t.organization_id = ${workspace} AND t.number >= p.range::bigint << 12
          AND t.number < (p.range + 1)::bigint << 12
          AND position(${phrase} IN t.folded) > 0 AND (${isExact(cased)}) = p.is_exact ${ofRole(role)}
        ORDER BY t.number DESC LIMIT ${offset + limit}) t
      ORDER BY p.is_exact DESC, t.number DESC LIMIT ${limit} OFFSET ${offset}`
  })

  const rareSessions = SqlSchema.findAll({
    Request: Schema.Struct({ ...Searched, trigrams: Trigrams, limit: Schema.Int }),
    Result: Schema.Struct({ ...CommonPhrases.SessionCount.fields, total: SafeInt8 }),
    execute: ({ limit, phrase, trigrams, workspace }) => sql`
      WITH found AS MATERIALIZED (
        SELECT t.session_id, count(*) AS amount, min(t.place) AS first_place, max(t.number) AS newest
        FROM messages_with(${workspace}, ${phrase}, ${trigrams}::bigint[], NULL) t GROUP BY 1)
      SELECT *, (SELECT count(*) FROM found) AS total FROM found ORDER BY newest DESC LIMIT ${limit}`
  })

  const firstHits = SqlSchema.findAll({
    Request: Schema.Struct({
      workspace: OrganizationId,
      places: Schema.fromJsonString(Schema.Array(Schema.Tuple([SessionId, Schema.Int])))
    }),
    Result: Hit,
    execute: ({ places, workspace }) => sql`
      SELECT ${columns} FROM jsonb_array_elements(${places}::jsonb) WITH ORDINALITY AS p (item, place), LATERAL (
        SELECT * FROM session_messages m
        WHERE m.organization_id = ${workspace} AND m.session_id = p.item->>0 AND m.position = (p.item->>1)::int
        OFFSET 0) m
      ORDER BY p.place`
  })

  /** How a phrase is best searched for. */
  const wayOf = Effect.fnUntraced(function* ({ phrase, workspace }: Searched) {
    if (phrase.length < shortestIndexed) return { isCommon: true, trigrams: null }
    const { matched, seen, share, trigrams } = yield* sampled({ workspace, phrase })
    return {
      isCommon: matched > seen * commonShare || share > commonTrigrams,
      trigrams: share > mostIndexed ? null : trigrams
    }
  })

  const hitsWithTotal = Effect.fnUntraced(function* (
    workspace: OrganizationId,
    found: ReadonlyArray<typeof Found.Type>
  ) {
    const numbers = found.flatMap(({ hit }) => (hit === null ? [] : [hit]))
    return { hits: yield* hitsOf({ workspace, numbers }), total: found[0]?.total ?? 0 }
  })

  /**
   * The parts of ranges that a page lies in, and how many matches come before the first of them. Which messages have
   * the phrase in its own case is counted from the newest range on, as far as the page needs it.
   */
  const located = Effect.fnUntraced(function* (
    search: Searched,
    { all, exact: known, isSettled }: CommonPhrases.RangeCounts,
    until: number
  ) {
    const newestFirst = [...all.keys()].sort((one, other) => other - one)
    const exact = new Map(search.cased === null ? all : [...known].filter(([range]) => isSettled(range)))
    let seen = 0
    let enough = 0
    for (let at = 0, step = 1; at < newestFirst.length && enough < until; at += step, step = Math.min(64, step * 4)) {
      const ranges = newestFirst.slice(at, at + step)
      const unknown = ranges.filter((range) => !exact.has(range))
      for (const { amount, range } of unknown.length === 0
        ? []
        : yield* exactInRanges({ ...search, ranges: unknown })) {
        exact.set(range, amount)
        if (isSettled(range)) known.set(range, amount)
      }
      for (const range of ranges) enough += exact.get(range) ?? 0
      seen = at + ranges.length
    }
    const parts = newestFirst.slice(0, seen).map((range) => [range, true, exact.get(range) ?? 0] as const)
    if (seen < newestFirst.length) return parts
    return [...parts, ...parts.map(([range, , count]) => [range, false, (all.get(range) ?? 0) - count] as const)]
  })

  const commonMatches = Effect.fnUntraced(function* (
    search: Searched,
    trigrams: Trigrams,
    { limit, offset }: { readonly limit: number; readonly offset: number }
  ) {
    const counts = yield* common.ranges(search, trigrams)
    const total = [...counts.all.values()].reduce((sum, count) => sum + count, 0)
    if (offset >= total) return { hits: [], total }
    const parts: Array<typeof Part.Type> = []
    let before = 0
    let skipped = 0
    for (const [range, isExact, count] of yield* located(search, counts, offset + limit)) {
      if (before + count <= offset) skipped += count
      else if (before < offset + limit) parts.push([range, isExact])
      before += count
    }
    const found = yield* numbersInRanges({ ...search, parts, limit, offset: offset - skipped })
    return { hits: yield* hitsOf({ workspace: search.workspace, numbers: found.map(({ number }) => number) }), total }
  })

  const messages = Effect.fnUntraced(function* (
    workspace: OrganizationId,
    { phrase, role, session, ...page }: MessageSearch
  ) {
    const search = searched(workspace, phrase, role)
    if (session !== undefined) {
      return yield* hitsWithTotal(workspace, yield* matchesOfSession({ ...search, session, ...page }))
    }
    const { isCommon, trigrams } = yield* wayOf(search)
    return isCommon
      ? yield* commonMatches(search, trigrams, page)
      : yield* hitsWithTotal(workspace, yield* rareMatches({ ...search, trigrams, ...page }))
  })

  const sessions = Effect.fnUntraced(function* (workspace: OrganizationId, phrase: string, limit: number) {
    const search = searched(workspace, phrase, undefined)
    let found: Effect.Success<ReturnType<typeof common.sessions>>
    const { isCommon, trigrams } = yield* wayOf(search)
    if (isCommon) found = yield* common.sessions(search, trigrams, limit)
    else {
      const top = yield* rareSessions({ ...search, trigrams, limit })
      found = { top, total: top[0]?.total ?? 0 }
    }
    const { top, total } = found
    const hits = yield* firstHits({
      workspace,
      places: top.map(({ firstPlace, sessionId }) => [sessionId, firstPlace] as const)
    })
    const amounts = new Map(top.map(({ amount, sessionId }) => [sessionId, amount]))
    return {
      found: hits.map((hit) => ({ first: foundMessage(hit), matchCount: amounts.get(hit.sessionId) ?? 0 })),
      total
    }
  })

  return {
    messages: (workspace: OrganizationId, search: MessageSearch) =>
      Effect.map(longer(messages(workspace, search)), ({ hits, total }) => ({ hits: hits.map(foundMessage), total })),
    sessions: (workspace: OrganizationId, phrase: string, limit: number) => longer(sessions(workspace, phrase, limit))
  }
})

const foundMessage = (hit: typeof Hit.Type) => ({
  session: hit.sessionId,
  message: fromRow(hit),
  index: hit.position
})
