import { Effect, Schema, Semaphore } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { SessionId } from "../../domain/conversation/Session.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import { Searched, Trigrams } from "./SearchedPhrase.ts"

/** Numbers of a range of messages, as `searched_texts` has them. */
const perRange = 4096

/** Phrases whose counts are remembered, of all workspaces. */
const mostRemembered = 200

/** Messages behind the remembered ones that are counted each time; with more, they are remembered too. */
const mostUnremembered = 20_000

/** Searches of one process that read everything at once: each takes all processors of the server. */
const mostAtOnce = 2

/** A match of a session in messages that were counted. */
export const SessionCount = Schema.Struct({
  sessionId: SessionId,
  amount: SafeInt8,
  firstPlace: Schema.Int,
  newest: SafeInt8
})
export type SessionCount = typeof SessionCount.Type

/** How many messages have a phrase, by their ranges. */
export interface RangeCounts {
  readonly all: ReadonlyMap<number, number>
  /** How many have it in its own case, of settled ranges where somebody has counted that and put it here. */
  readonly exact: Map<number, number>
  /** Whether all messages of the range are there. */
  readonly isSettled: (range: number) => boolean
}

interface Settled {
  /** Of messages up to this number, the last of a range; none of them is still to come. */
  readonly upto: number
  /** How often messages of the workspace had been forgotten. */
  readonly forgotten: number
}

interface RememberedRanges extends Settled {
  readonly all: ReadonlyMap<number, number>
  /** By the phrase as it stands. */
  readonly exact: Map<string, Map<number, number>>
}

interface RememberedSessions extends Settled {
  readonly total: number
  readonly top: ReadonlyArray<SessionCount>
}

/**
 * Counts of phrases that many messages have, exact at any time. All messages that can have one are read for them, once,
 * found by the index where it is given trigrams to look for. What was counted is remembered, and only what came since is
 * counted when a phrase is asked for again, as for the next page; until messages of the workspace are forgotten.
 */
export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reading = yield* Semaphore.make(mostAtOnce)

  const Bounds = { above: Schema.NullOr(SafeInt8), upto: Schema.NullOr(SafeInt8) }

  const countRanges = SqlSchema.findOne({
    Request: Schema.Struct({ ...Searched, trigrams: Trigrams, ...Bounds }),
    Result: Schema.Struct({
      counts: Schema.fromJsonString(Schema.Array(Schema.Tuple([Schema.Int, Schema.Int]))),
      forgotten: SafeInt8
    }),
    execute: ({ above, phrase, role, trigrams, upto, workspace }) => sql`
      SELECT counts::text AS counts, forgotten FROM count_messages(
        ${workspace}, ${phrase}, ${trigrams}::bigint[], ${role}::text, ${above}::bigint, ${upto}::bigint)`
  })

  const countSessions = SqlSchema.findAll({
    Request: Schema.Struct({
      workspace: OrganizationId,
      phrase: Schema.Uint8Array,
      trigrams: Trigrams,
      ...Bounds,
      limit: Schema.NullOr(Schema.Int)
    }),
    Result: Schema.Struct({
      sessionId: Schema.NullOr(SessionId),
      amount: Schema.NullOr(SafeInt8),
      firstPlace: Schema.NullOr(Schema.Int),
      newest: Schema.NullOr(SafeInt8),
      total: SafeInt8,
      forgotten: SafeInt8
    }),
    execute: ({ above, limit, phrase, trigrams, upto, workspace }) => sql`
      WITH found AS MATERIALIZED (SELECT * FROM sessions_with(
        ${workspace}, ${phrase}, ${trigrams}::bigint[], ${above}::bigint, ${upto}::bigint))
      SELECT top.*, totals.* FROM (
        SELECT (SELECT count(*) FROM found) AS total,
               coalesce((SELECT w.forgotten FROM session_workspaces w WHERE w.organization_id = ${workspace}), 0) AS forgotten
      ) totals LEFT JOIN (SELECT * FROM found ORDER BY newest DESC LIMIT ${limit}::int) top ON true
      ORDER BY top.newest DESC`
  })

  const countOfSessions = SqlSchema.findAll({
    Request: Schema.Struct({
      workspace: OrganizationId,
      phrase: Schema.Uint8Array,
      upto: SafeInt8,
      ids: Schema.fromJsonString(Schema.Array(SessionId))
    }),
    Result: SessionCount,
    execute: ({ ids, phrase, upto, workspace }) => sql`
      SELECT t.session_id, count(*) AS amount, min(t.position) AS first_place, max(t.number) AS newest
      FROM jsonb_array_elements_text(${ids}::jsonb) AS s (id), LATERAL (
        SELECT m.number FROM session_messages m
        WHERE m.organization_id = ${workspace} AND m.session_id = s.id AND m.number + 0 <= ${upto} OFFSET 0) m, LATERAL (
        SELECT * FROM searched_texts t
        WHERE t.organization_id = ${workspace} AND t.number = m.number OFFSET 0) t
      WHERE position(${phrase} IN t.folded) > 0 GROUP BY 1`
  })

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
   * to a message: once all have ended that had begun when the latest number was read, so have those that gave it or one
   * before. Undefined while one of them still runs.
   */
  const settledNumber = Effect.gen(function* () {
    const { latest } = yield* latestNumber()
    const { next } = yield* transactions()
    const { oldest } = yield* transactions()
    return oldest >= next ? Math.floor((latest + 1) / perRange) * perRange - 1 : undefined
  })

  const isStale = Effect.fnUntraced(function* ({ upto }: Settled) {
    const { latest } = yield* latestNumber()
    return latest - upto > mostUnremembered
  })

  const knownRanges = new Remembering<RememberedRanges>()

  const ranges = Effect.fnUntraced(function* (
    search: Searched,
    trigrams: Trigrams
  ): Effect.fn.Return<RangeCounts, Effect.Error<ReturnType<typeof countRanges>>> {
    const key = keyOf(search)
    const known = knownRanges.find(key)
    if (known !== undefined && !(yield* isStale(known))) {
      const since = yield* countRanges({ ...search, trigrams, above: known.upto, upto: null })
      if (since.forgotten === known.forgotten) return withLatest(search, known, since.counts)
      knownRanges.forget(key)
    }
    const upto = yield* settledNumber
    const base = knownRanges.find(key)
    if (upto === undefined) {
      const { counts } = yield* reading.withPermit(countRanges({ ...search, trigrams, above: null, upto: null }))
      return withLatest(search, { all: new Map(), exact: new Map(), upto: -1, forgotten: 0 }, counts)
    }
    const settled = yield* reading.withPermit(countRanges({ ...search, trigrams, above: base?.upto ?? null, upto }))
    const all = new Map([...(base?.all ?? []), ...settled.counts])
    const since = yield* countRanges({ ...search, trigrams, above: upto, upto: null })
    if (since.forgotten !== settled.forgotten || settled.forgotten !== (base?.forgotten ?? settled.forgotten)) {
      knownRanges.forget(key)
      return yield* ranges(search, trigrams)
    }
    const made: RememberedRanges = { all, exact: base?.exact ?? new Map(), upto, forgotten: settled.forgotten }
    knownRanges.keep(key, made)
    return withLatest(search, made, since.counts)
  })

  const knownSessions = new Remembering<RememberedSessions>()

  const sessionCounts = Effect.fnUntraced(function* (request: Parameters<typeof countSessions>[0]) {
    const rows = yield* countSessions(request)
    const counts = rows.flatMap(({ amount, firstPlace, newest, sessionId }) =>
      sessionId === null || amount === null || firstPlace === null || newest === null
        ? []
        : [{ sessionId, amount, firstPlace, newest }]
    )
    return { counts, total: rows[0]?.total ?? 0, forgotten: rows[0]?.forgotten ?? 0 }
  })

  const sessions = Effect.fnUntraced(function* (
    search: Searched,
    trigrams: Trigrams,
    limit: number
  ): Effect.fn.Return<
    { readonly top: ReadonlyArray<SessionCount>; readonly total: number },
    Effect.Error<ReturnType<typeof countSessions>> | Effect.Error<ReturnType<typeof latestNumber>>
  > {
    const { phrase, workspace } = search
    const key = `${limit} ${keyOf(search)}`
    let known = knownSessions.find(key)
    if (known === undefined || (yield* isStale(known))) {
      const upto = yield* settledNumber
      const settled = yield* reading.withPermit(
        sessionCounts({ workspace, phrase, trigrams, above: null, upto: upto ?? null, limit })
      )
      if (upto === undefined) return { top: settled.counts, total: settled.total }
      known = { upto, forgotten: settled.forgotten, total: settled.total, top: settled.counts }
    }
    const since = yield* sessionCounts({ workspace, phrase, trigrams, above: known.upto, upto: null, limit: null })
    if (since.forgotten !== known.forgotten) {
      knownSessions.forget(key)
      return yield* sessions(search, trigrams, limit)
    }
    knownSessions.keep(key, known)
    const ids = since.counts.map(({ sessionId }) => sessionId)
    const before = new Map(
      ids.length === 0
        ? []
        : (yield* countOfSessions({ workspace, phrase, upto: known.upto, ids })).map((count) => [
            count.sessionId,
            count
          ])
    )
    const latest = since.counts.map((count) => {
      const earlier = before.get(count.sessionId)
      return earlier === undefined
        ? count
        : { ...count, amount: count.amount + earlier.amount, firstPlace: earlier.firstPlace }
    })
    const renewed = new Set(ids)
    return {
      top: [...latest, ...known.top.filter(({ sessionId }) => !renewed.has(sessionId))].slice(0, limit),
      total: known.total + ids.filter((id) => !before.has(id)).length
    }
  })

  return { ranges, sessions }
})

/** The counts that were remembered, and those of what came since. */
const withLatest = (
  { cased }: Searched,
  { all, exact, upto }: RememberedRanges,
  since: ReadonlyArray<readonly [range: number, count: number]>
): RangeCounts => {
  const key = cased === null ? "" : base64(cased)
  const own = exact.get(key) ?? new Map<number, number>()
  exact.set(key, own)
  return { all: new Map([...all, ...since]), exact: own, isSettled: (range) => range * perRange <= upto }
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64")

const keyOf = ({ phrase, role, workspace }: Searched): string => JSON.stringify([workspace, role, base64(phrase)])

/** The last ones that were asked for. */
class Remembering<A> {
  readonly #known = new Map<string, A>()

  find(key: string): A | undefined {
    return this.#known.get(key)
  }

  keep(key: string, value: A): void {
    this.#known.delete(key)
    this.#known.set(key, value)
    const [oldest] = this.#known.keys()
    if (this.#known.size > mostRemembered && oldest !== undefined) this.#known.delete(oldest)
  }

  forget(key: string): void {
    this.#known.delete(key)
  }
}
