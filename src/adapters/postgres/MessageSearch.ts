import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import type { MessageSearch } from "../../application/ports/storage/Sessions.ts"
import { MessageRole } from "../../domain/conversation/Message.ts"
import { SessionId } from "../../domain/conversation/Session.ts"
import { folded } from "../../domain/search/Phrase.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import { fromRow, InSession, MessageRow, storable } from "./ConversationColumns.ts"
import * as Patience from "./Patience.ts"

/** Of a sample: a phrase that more of it has is counted by reading everything, which is faster then. */
const commonShare = 0.01

/** Numbers of one range of `count_messages`. */
const rangeBits = 12

/** Phrases whose counts are remembered, of all workspaces. */
const mostRemembered = 200

/** Numbers behind the remembered ones that are counted each time; with more, they are remembered too. */
const mostUnremembered = 20_000

const Phrase = { phrase: Schema.Uint8Array, cased: Schema.NullOr(Schema.Uint8Array) }

const Hit = Schema.Struct({ ...MessageRow.fields, sessionId: SessionId, position: Schema.Int })

const Page = { limit: Schema.Int, offset: Schema.Int }

/** `[range, isExact, count]` */
const Counts = Schema.fromJsonString(Schema.Array(Schema.Tuple([Schema.Int, Schema.Boolean, Schema.Int])))
type Counts = typeof Counts.Type

interface Remembered {
  readonly counts: Counts
  /** Of all messages up to this number, none of which is still to come. */
  readonly upto: number
  /** How often messages of the workspace had been forgotten. */
  readonly forgotten: number
}

/**
 * Where messages have a phrase. One that few have is found by the index of trigrams. One that many have, or that is too
 * short for the index, is found by reading all messages of the workspace; what was counted then is remembered, and
 * only what came since is counted when it is asked for again, as for the next page: until messages are forgotten.
 */
export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { longer } = yield* Patience.make

  const columns = sql.literal("m.session_id, m.position, m.role, m.text, m.body, m.created_at")

  const sampled = SqlSchema.findOne({
    Request: Schema.Struct({ workspace: OrganizationId, phrase: Schema.Uint8Array }),
    Result: Schema.Struct({ seen: SafeInt8, matched: SafeInt8 }),
    execute: ({ phrase, workspace }) => sql`SELECT * FROM sample_messages(${workspace}, ${phrase})`
  })

  const isExact = (cased: Uint8Array | null) =>
    cased === null ? sql.literal("true") : sql`position(${cased} IN convert_to(m.text, 'UTF8')) > 0`

  const ofRole = (role: string | null) => (role === null ? sql.literal("") : sql`AND m.role = ${role}`)

  const Found = Schema.Struct({ total: SafeInt8, hit: Schema.NullOr(SafeInt8) })

  const rareMatches = SqlSchema.findAll({
    Request: Schema.Struct({ workspace: OrganizationId, role: Schema.NullOr(MessageRole), ...Phrase, ...Page }),
    Result: Found,
    execute: ({ cased, limit, offset, phrase, role, workspace }) => sql`
      WITH matches AS MATERIALIZED (
        SELECT m.number, m.is_exact FROM messages_with(${workspace}, ${phrase}, ${cased}::bytea) m
        WHERE true ${ofRole(role)})
      SELECT t.total, p.number AS hit FROM (SELECT count(*) AS total FROM matches) t LEFT JOIN (
        SELECT * FROM matches ORDER BY is_exact DESC, number DESC LIMIT ${limit} OFFSET ${offset}) p ON true
      ORDER BY p.is_exact DESC, p.number DESC`
  })

  const matchesOfSession = SqlSchema.findAll({
    Request: Schema.Struct({ ...InSession, role: Schema.NullOr(MessageRole), ...Phrase, ...Page }),
    Result: Found,
    execute: ({ cased, limit, offset, phrase, role, session, workspace }) => sql`
      WITH matches AS MATERIALIZED (
        SELECT m.number, ${isExact(cased)} AS is_exact FROM session_messages m
        WHERE m.organization_id = ${workspace} AND m.session_id = ${session}
          AND position(${phrase} IN m.folded) > 0 ${ofRole(role)})
      SELECT t.total, p.number AS hit FROM (SELECT count(*) AS total FROM matches) t LEFT JOIN (
        SELECT * FROM matches ORDER BY is_exact DESC, number DESC LIMIT ${limit} OFFSET ${offset}) p ON true
      ORDER BY p.is_exact DESC, p.number DESC`
  })

  const hitsOf = SqlSchema.findAll({
    Request: Schema.Struct({ workspace: OrganizationId, numbers: Schema.fromJsonString(Schema.Array(Schema.Int)) }),
    Result: Hit,
    execute: ({ numbers, workspace }) => sql`
      SELECT ${columns} FROM jsonb_array_elements_text(${numbers}::jsonb) WITH ORDINALITY AS n (number, place)
      JOIN session_messages m ON m.organization_id = ${workspace} AND m.number = n.number::bigint
      ORDER BY n.place`
  })

  const countOf = SqlSchema.findOne({
    Request: Schema.Struct({
      workspace: OrganizationId,
      role: Schema.NullOr(MessageRole),
      ...Phrase,
      above: Schema.NullOr(SafeInt8),
      upto: Schema.NullOr(SafeInt8)
    }),
    Result: Schema.Struct({ counts: Counts, forgotten: SafeInt8 }),
    execute: ({ above, cased, phrase, role, upto, workspace }) => sql`
      SELECT counts::text AS counts, forgotten FROM count_messages(
        ${workspace}, ${phrase}, ${cased}::bytea, ${role}::text, ${above}::bigint, ${upto}::bigint)`
  })

  const hitsInRanges = SqlSchema.findAll({
    Request: Schema.Struct({
      workspace: OrganizationId,
      role: Schema.NullOr(MessageRole),
      ...Phrase,
      ranges: Schema.fromJsonString(Schema.Array(Schema.Tuple([Schema.Int, Schema.Boolean]))),
      ...Page
    }),
    Result: Hit,
    execute: ({ cased, limit, offset, phrase, ranges, role, workspace }) => sql`
      SELECT ${columns} FROM (
        SELECT (r.item->>0)::bigint AS range, (r.item->>1)::boolean AS is_exact
        FROM jsonb_array_elements(${ranges}::jsonb) AS r (item)) r
      JOIN session_messages m ON m.organization_id = ${workspace}
        AND m.number >= r.range << ${sql.literal(`${rangeBits}`)}
        AND m.number < (r.range + 1) << ${sql.literal(`${rangeBits}`)}
      WHERE position(${phrase} IN m.folded) > 0 AND (${isExact(cased)}) = r.is_exact ${ofRole(role)}
      ORDER BY r.is_exact DESC, m.number DESC LIMIT ${limit} OFFSET ${offset}`
  })

  /** What this process knows of numbers that were given to messages and are not committed yet. */
  const latestNumber = SqlSchema.findOne({
    Request: Schema.Void,
    Result: Schema.Struct({ latest: SafeInt8 }),
    execute: () => sql`
      SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('session_messages', 'number')::regclass), 0) AS latest`
  })

  const transactions = SqlSchema.findOne({
    Request: Schema.Void,
    Result: Schema.Struct({ oldest: SafeInt8, next: SafeInt8 }),
    execute: () => sql`
      SELECT pg_snapshot_xmin(s)::text::bigint AS oldest, pg_snapshot_xmax(s)::text::bigint AS next
      FROM pg_current_snapshot() AS s`
  })

  /**
   * A number up to which every message is there that ever will be. A transaction has its own number before it gives one
   * to a message: when all have ended that had begun after that latest number was read, so have those that gave it or
   * one before. Undefined while one of them still runs.
   */
  const settledNumber = Effect.gen(function* () {
    const { latest } = yield* latestNumber()
    const { next } = yield* transactions()
    const { oldest } = yield* transactions()
    return oldest >= next ? latest : undefined
  })

  const remembered = new Map<string, Remembered>()

  const remember = (key: string, entry: Remembered) => {
    remembered.delete(key)
    remembered.set(key, entry)
    for (const oldest of remembered.keys()) {
      if (remembered.size <= mostRemembered) break
      remembered.delete(oldest)
    }
  }

  const counted = Effect.fnUntraced(function* (
    search: Omit<Parameters<typeof countOf>[0], "above" | "upto">
  ): Effect.fn.Return<Counts, Effect.Error<ReturnType<typeof countOf>>> {
    const key = JSON.stringify([
      search.workspace,
      search.role,
      Buffer.from(search.phrase).toString("latin1"),
      search.cased === null ? null : Buffer.from(search.cased).toString("latin1")
    ])
    const known = remembered.get(key)
    if (known !== undefined) {
      const latest = yield* countOf({ ...search, above: known.upto, upto: null })
      if (latest.forgotten === known.forgotten) {
        const merged = merge(known.counts, latest.counts)
        remember(key, known)
        const behind = (yield* latestNumber()).latest - known.upto
        const upto = behind > mostUnremembered ? yield* settledNumber : undefined
        if (upto !== undefined) {
          const between = yield* countOf({ ...search, above: known.upto, upto })
          if (between.forgotten === known.forgotten) {
            remember(key, { ...known, upto, counts: merge(known.counts, between.counts) })
          }
        }
        return merged
      }
      remembered.delete(key)
    }
    const upto = yield* settledNumber
    if (upto === undefined) return (yield* countOf({ ...search, above: null, upto: null })).counts
    const settled = yield* countOf({ ...search, above: null, upto })
    const latest = yield* countOf({ ...search, above: upto, upto: null })
    if (latest.forgotten !== settled.forgotten) return yield* counted(search)
    remember(key, { ...settled, upto })
    return merge(settled.counts, latest.counts)
  })

  const isCommon = Effect.fnUntraced(function* (workspace: OrganizationId, phrase: Uint8Array) {
    if (phrase.length < 3) return true
    const { matched, seen } = yield* sampled({ workspace, phrase })
    return matched > seen * commonShare
  })

  const page = Effect.fnUntraced(function* (workspace: OrganizationId, found: ReadonlyArray<typeof Found.Type>) {
    const numbers = found.flatMap(({ hit }) => (hit === null ? [] : [hit]))
    return { hits: yield* hitsOf({ workspace, numbers }), total: found[0]?.total ?? 0 }
  })

  const messages = Effect.fnUntraced(function* (
    workspace: OrganizationId,
    {
      limit,
      offset,
      phrase,
      role = null,
      session
    }: Omit<MessageSearch, "role"> & { role?: MessageRole | undefined | null }
  ) {
    const bytes = bytesOf(phrase)
    const search = { workspace, role, ...bytes }
    if (session !== undefined) {
      return yield* page(workspace, yield* matchesOfSession({ ...search, session, limit, offset }))
    }
    if (!(yield* isCommon(workspace, bytes.phrase))) {
      return yield* page(workspace, yield* rareMatches({ ...search, limit, offset }))
    }
    const counts = yield* counted(search)
    const { ranges, skipped, total } = located(counts, { limit, offset })
    const hits = ranges.length === 0 ? [] : yield* hitsInRanges({ ...search, ranges, limit, offset: offset - skipped })
    return { hits, total }
  })

  const SessionRow = Schema.Struct({ sessionId: SessionId, amount: SafeInt8, firstPlace: Schema.Int, total: SafeInt8 })

  const sessionsFound = SqlSchema.findAll({
    Request: Schema.Struct({
      workspace: OrganizationId,
      phrase: Schema.Uint8Array,
      isCommon: Schema.Boolean,
      limit: Schema.Int
    }),
    Result: SessionRow,
    execute: ({ isCommon, limit, phrase, workspace }) => sql`
      WITH found AS MATERIALIZED (
        ${
          isCommon
            ? sql`SELECT * FROM sessions_with(${workspace}, ${phrase})`
            : sql`
              SELECT m.session_id, count(*) AS amount, min(m.place) AS first_place, max(m.number) AS newest
              FROM messages_with(${workspace}, ${phrase}, NULL) m GROUP BY 1`
        })
      SELECT session_id, amount, first_place, (SELECT count(*) FROM found) AS total
      FROM found ORDER BY newest DESC LIMIT ${limit}`
  })

  const firstHits = SqlSchema.findAll({
    Request: Schema.Struct({
      workspace: OrganizationId,
      places: Schema.fromJsonString(Schema.Array(Schema.Tuple([SessionId, Schema.Int])))
    }),
    Result: Hit,
    execute: ({ places, workspace }) => sql`
      SELECT ${columns} FROM jsonb_array_elements(${places}::jsonb) WITH ORDINALITY AS p (item, place)
      JOIN session_messages m ON m.organization_id = ${workspace} AND m.session_id = p.item->>0
        AND m.position = (p.item->>1)::int
      ORDER BY p.place`
  })

  const sessions = Effect.fnUntraced(function* (workspace: OrganizationId, text: string, limit: number) {
    const { phrase } = bytesOf(text)
    const found = yield* sessionsFound({
      workspace,
      phrase,
      isCommon: yield* isCommon(workspace, phrase),
      limit
    })
    const hits = yield* firstHits({
      workspace,
      places: found.map(({ firstPlace, sessionId }) => [sessionId, firstPlace] as const)
    })
    const amounts = new Map(found.map(({ amount, sessionId }) => [sessionId, amount]))
    return {
      found: hits.map((hit) => ({ first: foundMessage(hit), matchCount: amounts.get(hit.sessionId) ?? 0 })),
      total: found[0]?.total ?? 0
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

/** As it is compared: folded, and as it stands unless every case of it looks the same. */
const bytesOf = (text: string): { readonly phrase: Uint8Array; readonly cased: Uint8Array | null } => {
  const phrase = storable(text)
  const encoder = new TextEncoder()
  const hasCase = phrase !== folded(phrase) || phrase !== phrase.toUpperCase()
  return { phrase: encoder.encode(folded(phrase)), cased: hasCase ? encoder.encode(phrase) : null }
}

const merge = (one: Counts, other: Counts): Counts => {
  const sums = new Map<string, readonly [number, boolean, number]>()
  for (const [range, isExact, count] of [...one, ...other]) {
    const key = `${range} ${isExact}`
    sums.set(key, [range, isExact, count + (sums.get(key)?.[2] ?? 0)])
  }
  return [...sums.values()]
}

/** Which ranges a page lies in, and how many matches come before them: exact ones first, then the newest. */
const located = (counts: Counts, { limit, offset }: { readonly limit: number; readonly offset: number }) => {
  const ranked = counts.toSorted(([range, isExact], [otherRange, otherIsExact]) =>
    isExact === otherIsExact ? otherRange - range : isExact ? -1 : 1
  )
  const ranges: Array<readonly [number, boolean]> = []
  let skipped = 0
  let total = 0
  for (const [range, isExact, count] of ranked) {
    if (total + count <= offset) skipped += count
    else if (total < offset + limit) ranges.push([range, isExact])
    total += count
  }
  return { ranges, skipped, total }
}
