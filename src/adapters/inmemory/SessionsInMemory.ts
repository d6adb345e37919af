import { Array, Clock, Effect, Layer, Option, Order } from "effect"
import { type FoundMessage, Sessions } from "../../application/ports/storage/Sessions.ts"
import { textOf } from "../../domain/conversation/Message.ts"
import { cancelled } from "../../domain/conversation/SessionEvent.ts"
import { folded } from "../../domain/search/Phrase.ts"
import {
  Conversations,
  isOpen,
  runningTurn,
  sessionOf,
  type StoredMessage,
  type StoredSession
} from "./Conversations.ts"

const byId = Order.mapInput(Order.String, ({ id }: StoredSession) => id)
const byActivity = Order.mapInput(Order.Number, ({ lastActivity }: StoredSession) => lastActivity)
const latestFirst = Order.combine(Order.flip(byActivity), byId)
const idleFirst = Order.combine(byActivity, byId)

interface Match {
  readonly stored: StoredSession
  readonly found: StoredMessage
  readonly index: number
  readonly isExact: boolean
}

const byRank = Order.combine(
  Order.flip(Order.mapInput(Order.Boolean, ({ isExact }: Match) => isExact)),
  Order.flip(Order.mapInput(Order.Number, ({ found }: Match) => found.number))
)

export const layer = Layer.effect(
  Sessions,
  Effect.gen(function* () {
    const { append, currents, find, open, sessionsOf } = yield* Conversations

    const matchesOf = (stored: StoredSession, phrase: string): ReadonlyArray<Match> => {
      const wanted = folded(phrase)
      return stored.history.flatMap((found, index) => {
        const text = textOf(found.message)
        return folded(text).includes(wanted) ? [{ stored, found, index, isExact: text.includes(phrase) }] : []
      })
    }

    const foundMessage = ({ found, index, stored }: Match): FoundMessage => ({
      session: stored.id,
      message: found.message,
      index
    })

    return Sessions.of({
      open: (workspace, id) =>
        Effect.map(open(workspace, id), ({ isNew, stored }) => ({ session: sessionOf(stored), isNew })),
      openWithin: Effect.fnUntraced(function* (workspace, id, { millis, most }) {
        const since = (yield* Clock.currentTimeMillis) - millis
        const active = sessionsOf(workspace).filter(({ lastActivity }) => lastActivity > since)
        if (find(workspace, id) === undefined && active.length >= most) return Option.none()
        const { isNew, stored } = yield* open(workspace, id)
        return Option.some({ session: sessionOf(stored), isNew })
      }),
      find: (workspace, id) => Effect.sync(() => Option.map(Option.fromUndefinedOr(find(workspace, id)), sessionOf)),
      list: (workspace) => Effect.sync(() => Array.sort(sessionsOf(workspace), latestFirst).map(sessionOf)),
      history: (workspace, id) => Effect.sync(() => (find(workspace, id)?.history ?? []).map(({ message }) => message)),
      isBusy: (workspace, id) =>
        Effect.sync(() =>
          Option.exists(Option.fromUndefinedOr(find(workspace, id)), (stored) => Option.isSome(runningTurn(stored)))
        ),
      rename: Effect.fnUntraced(function* (workspace, id, title) {
        const stored = find(workspace, id)
        if (stored === undefined) return false
        stored.title = title
        yield* append(stored, { events: [{ event: "sessionTitleUpdated", data: { title, sessionId: id } }] })
        return true
      }),
      reset: Effect.fnUntraced(function* (workspace, id) {
        const stored = find(workspace, id)
        if (stored === undefined) return Option.none()
        const ran = Option.toArray(runningTurn(stored)).map(({ ref }) => ref)
        const ended = [...stored.turns.values()].filter(isOpen)
        stored.turns = new Map(ended.map((turn) => [turn.ref.turn, turn]))
        for (const turn of ended) {
          turn.status = "cancelled"
          turn.entries.clear()
          turn.questions.clear()
        }
        stored.history = []
        const events = [
          ...ended.map(() => cancelled(id)),
          { event: "conversationReset" as const, data: { sessionId: id } }
        ]
        yield* append(stored, { events })
        return Option.some(ran)
      }),
      remove: Effect.fnUntraced(function* (workspace, id) {
        const stored = find(workspace, id)
        if (stored === undefined) return Option.none()
        const ran = Option.toArray(runningTurn(stored)).map(({ ref }) => ref)
        stored.isRemoved = true
        stored.events = []
        if (currents.get(workspace) === id) currents.delete(workspace)
        yield* append(stored, { events: [...stored.turns.values()].filter(isOpen).map(() => cancelled(id)) })
        return Option.some(ran)
      }),
      current: (workspace) => Effect.sync(() => Option.fromUndefinedOr(currents.get(workspace))),
      load: (workspace, id) =>
        Effect.sync(() => {
          if (find(workspace, id) === undefined) return false
          currents.set(workspace, id)
          return true
        }),
      idle: Effect.fnUntraced(function* (workspace, millis, limit) {
        const before = (yield* Clock.currentTimeMillis) - millis
        const idle = sessionsOf(workspace).filter(
          (stored) => stored.lastActivity <= before && Option.isNone(runningTurn(stored))
        )
        return Array.sort(idle, idleFirst)
          .slice(0, limit)
          .map(({ id }) => id)
      }),
      searchMessages: (workspace, { limit, offset, phrase, role, session }) =>
        Effect.sync(() => {
          const matches = sessionsOf(workspace)
            .filter(({ id }) => session === undefined || id === session)
            .flatMap((stored) => matchesOf(stored, phrase))
            .filter(({ found }) => role === undefined || found.message.role === role)
          const hits = Array.sort(matches, byRank).slice(offset, offset + limit)
          return { hits: hits.map(foundMessage), total: matches.length }
        }),
      searchSessions: (workspace, phrase, limit) =>
        Effect.sync(() => {
          const found = sessionsOf(workspace).flatMap((stored) => {
            const matches = matchesOf(stored, phrase)
            const [first] = matches
            const newest = matches.at(-1)
            return first === undefined || newest === undefined
              ? []
              : [
                  {
                    newest: newest.found.number,
                    match: { session: sessionOf(stored), matchCount: matches.length, first: foundMessage(first) }
                  }
                ]
          })
          const newestFirst = found.toSorted((one, other) => other.newest - one.newest)
          return { found: newestFirst.slice(0, limit).map(({ match }) => match), total: found.length }
        })
    })
  })
)
