import { Cause, Context, Effect, Layer, Stream } from "effect"
import type { SessionId } from "../../domain/conversation/Session.ts"
import type { NumberedEvent } from "../../domain/conversation/SessionEvent.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { type AgentEvent, RunningAgents } from "../agent/RunningAgents.ts"
import { EventLog, type WakeUp } from "../ports/storage/EventLog.ts"

/**
 * Those who listen to what happens in workspaces (decisions 6). Each session that somebody listens to has one reader in
 * this process, whoever they are and how many: it is woken when there are new events, reads them from the log unless
 * this process has just written them, and tells all. Nobody is waited for. Whoever asks for earlier events reads the log
 * by himself until he has what the reader has, so nothing is lost or repeated where the two meet.
 */
export class Listen extends Context.Service<
  Listen,
  {
    /** At first a listener hears of the workspace's agents only. It is let go of by `stop`, and not before. */
    readonly open: (workspace: OrganizationId, listener: Listener) => Listening
  }
>()("gateway/conversation/Listen") {
  static readonly layer = Layer.effect(
    Listen,
    Effect.gen(function* () {
      const log = yield* EventLog
      const agents = yield* RunningAgents
      const scope = yield* Effect.scope
      const feeds = new Map<OrganizationId, Feed>()

      /** A page of the log; undefined after a pause if it could not be read: whoever asked asks again. */
      const page = (workspace: OrganizationId, session: SessionId, after: number) =>
        Effect.catchCause(log.after(workspace, session, after, pageLength), awaitStore)

      /** Reads until nothing is new. Only one at a time of a reader. */
      const read = Effect.fnUntraced(function* (feed: Feed, reader: Reader) {
        while (reader.isBehind && feed.readers.get(reader.session) === reader) {
          reader.isBehind = false
          const events = yield* page(feed.workspace, reader.session, reader.position)
          // Nobody needed it any more, and another may have taken its place.
          if (feed.readers.get(reader.session) !== reader) break
          for (const event of events ?? []) deliver(feed, reader, event)
          if (events === undefined || events.length === pageLength) reader.isBehind = true
        }
        reader.isReading = false
      })

      const wake = (feed: Feed, reader: Reader): Effect.Effect<void> =>
        Effect.suspend(() => {
          reader.isBehind = true
          if (reader.isReading) return Effect.void
          reader.isReading = true
          return Effect.forkIn(read(feed, reader), scope)
        })

      /** Reads the log for one follower until it has all that the reader has, who tells it from then on. */
      const catchUp = Effect.fnUntraced(function* (feed: Feed, reader: Reader, follower: Follower) {
        const { listener } = follower.entry
        while (reader.followers.has(follower)) {
          yield* listener.room
          // Before the log is read: what the reader had then, a short page has too, unless it is forgotten.
          const known = reader.position
          const events = yield* page(feed.workspace, reader.session, follower.position)
          if (events === undefined) continue
          for (const event of events) {
            if (!reader.followers.has(follower)) return
            follower.position = event.id
            listener.told(event)
          }
          if (events.length === pageLength) continue
          follower.position = Math.max(follower.position, known)
          if (follower.position < reader.position) continue
          follower.isLive = true
          return
        }
      })

      const open = (workspace: OrganizationId, listener: Listener): Listening => {
        const feed = feeds.get(workspace) ?? new Feed(workspace)
        feeds.set(workspace, feed)
        const entry: Entry = { listener, held: undefined, followed: undefined }
        feed.entries.add(entry)

        const unfollow = (session: SessionId): void => {
          const follower = entry.followed?.get(session)
          if (follower === undefined) return
          entry.followed?.delete(session)
          const reader = feed.readers.get(session)
          reader?.followers.delete(follower)
          if (reader !== undefined) feed.prune(reader)
        }

        const leaveAll = (): void => {
          entry.held = undefined
          if (feed.everything.delete(entry) && feed.everything.size === 0) {
            for (const reader of feed.readers.values()) feed.prune(reader)
          }
        }

        return {
          all: () => {
            if (!feed.entries.has(entry) || feed.everything.has(entry)) return
            entry.held = []
            feed.everything.add(entry)
          },
          release: () => release(entry),
          subscribe: Effect.fnUntraced(function* (session, after) {
            // Who has not been told of anything yet wants none of it twice.
            if (entry.held !== undefined) leaveAll()
            // Who follows it already may be ahead of the reader, and wants none of that twice either.
            const has = after ?? entry.followed?.get(session)?.position ?? 0
            const isRead = feed.readers.has(session) && has <= (feed.readers.get(session)?.position ?? 0)
            const last = isRead ? Number.POSITIVE_INFINITY : yield* lastOf(workspace, session)
            if (!feed.entries.has(entry)) return Math.min(after ?? 0, last)
            const known = feed.readers.get(session)
            const reader = known ?? new Reader(session, last)
            feed.readers.set(session, reader)
            // A number that no event has yet is of a store that is no more: who has it would hear of nothing for long.
            const now = isRead ? reader.position : Math.max(last, reader.position)
            const begin = Math.min(after ?? now, Math.max(last, reader.position))
            const follower = { entry, position: begin, isLive: after === undefined }
            reader.followers.add(follower)
            entry.followed ??= new Map()
            const before = entry.followed.get(session)
            if (before !== undefined) reader.followers.delete(before)
            entry.followed.set(session, follower)
            // Not before the session's reader has somebody who needs it.
            leaveAll()
            // What came before there was a reader woke nobody.
            if (known === undefined) yield* wake(feed, reader)
            if (after !== undefined) yield* Effect.forkIn(catchUp(feed, reader, follower), scope)
            return begin
          }),
          subscriptions: () => entry.followed?.size ?? 0,
          stop: () => {
            if (!feed.entries.delete(entry)) return
            leaveAll()
            for (const session of entry.followed?.keys() ?? []) unfollow(session)
            if (feed.entries.size === 0) feeds.delete(workspace)
          }
        }
      }

      const lastOf = (workspace: OrganizationId, session: SessionId): Effect.Effect<number> =>
        Effect.flatMap(Effect.catchCause(log.last(workspace, session), awaitStore), (last) =>
          last === undefined ? lastOf(workspace, session) : Effect.succeed(last)
        )

      yield* log.wakeUps.pipe(
        Stream.runForEach((wakeUp) => {
          const { events, from, session, upTo, workspace } = wakeUp
          const feed = feeds.get(workspace)
          const reader = feed?.readers.get(session) ?? feed?.unheard(wakeUp)
          if (feed === undefined || reader === undefined || reader.position >= upTo) return Effect.void
          if (events === undefined || reader.isReading || reader.position !== from - 1) return wake(feed, reader)
          return Effect.sync(() => {
            feed.keep(reader)
            events.forEach((event, place) => deliver(feed, reader, { id: from + place, session, event }))
          })
        }),
        Effect.forkScoped({ startImmediately: true })
      )

      yield* agents.events.pipe(
        Stream.runForEach((event) =>
          Effect.sync(() => {
            for (const { listener } of feeds.get(event.workspace)?.entries ?? []) listener.agent?.(event)
          })
        ),
        Effect.forkScoped({ startImmediately: true })
      )

      return Listen.of({ open })
    })
  )
}

/** Events that are read at once. */
const pageLength = 256

/** Held events beyond which they are told. */
const mostHeld = 1_000

/** Sessions of a workspace whose numbers are remembered though nobody follows them. */
const mostReaders = 10_000

/** Who is told, one event after the other, and must not wait: what it cannot pass on at once it keeps, or it stops. */
export interface Listener {
  readonly told: (event: NumberedEvent) => void
  readonly agent?: (event: AgentEvent) => void
  /** Completes when there is room for another page of earlier events. */
  readonly room: Effect.Effect<void>
}

export interface Listening {
  /**
   * All events of the workspace's sessions from now on, held back until they are released: so that who is about to
   * subscribe is not told of what it asks for then.
   */
  readonly all: () => void
  /** Tells what was held back, and holds back no more. */
  readonly release: () => void
  /**
   * From then on the events of this session, instead of all; with a number first those that have greater ones. A second
   * time for a session it begins anew. Completes when nothing that happens later is missed, with the number after which
   * it begins.
   */
  readonly subscribe: (session: SessionId, after: number | undefined) => Effect.Effect<number>
  /** How many sessions it is subscribed to. */
  readonly subscriptions: () => number
  readonly stop: () => void
}

interface Entry {
  readonly listener: Listener
  held: Array<NumberedEvent> | undefined
  followed: Map<SessionId, Follower> | undefined
}

interface Follower {
  readonly entry: Entry
  /** The number of the last event that it was told, or had before. */
  position: number
  /** Told by the reader; else it reads by itself. */
  isLive: boolean
}

/** What this process has read of a session's events. */
class Reader {
  readonly session: SessionId
  /** The number of the last event that was read. */
  position: number
  readonly followers = new Set<Follower>()
  isReading = false
  /** There may be more to read. */
  isBehind = false

  constructor(session: SessionId, position: number) {
    this.session = session
    this.position = position
  }
}

/** A workspace that somebody listens to. */
class Feed {
  readonly workspace: OrganizationId
  readonly entries = new Set<Entry>()
  /** Those who hear everything. */
  readonly everything = new Set<Entry>()
  readonly readers = new Map<SessionId, Reader>()

  constructor(workspace: OrganizationId) {
    this.workspace = workspace
  }

  /** A session that nobody follows, for those who hear everything, from this event on. */
  unheard({ from, isAhead, session }: WakeUp): Reader | undefined {
    if (this.everything.size === 0 || (isAhead === true && from > 1)) return undefined
    if (this.readers.size >= mostReaders) this.#forgetOne()
    const reader = new Reader(session, from - 1)
    this.readers.set(session, reader)
    return reader
  }

  /** Makes a reader the last to be forgotten: what it tells ahead comes once more, and is not to be told again. */
  keep(reader: Reader): void {
    this.readers.delete(reader.session)
    this.readers.set(reader.session, reader)
  }

  /** Lets go of a reader that nobody needs. While somebody hears everything it remembers what he was told. */
  prune(reader: Reader): void {
    if (reader.followers.size === 0 && this.everything.size === 0) this.readers.delete(reader.session)
  }

  #forgetOne(): void {
    for (const reader of this.readers.values()) {
      if (reader.followers.size > 0 || reader.isReading) continue
      this.readers.delete(reader.session)
      return
    }
  }
}

const deliver = (feed: Feed, reader: Reader, event: NumberedEvent): void => {
  reader.position = event.id
  for (const follower of reader.followers) {
    if (!follower.isLive || follower.position >= event.id) continue
    follower.position = event.id
    follower.entry.listener.told(event)
  }
  for (const entry of feed.everything) {
    if (entry.held === undefined) entry.listener.told(event)
    else if (entry.held.push(event) > mostHeld) release(entry)
  }
}

const release = (entry: Entry): void => {
  const { held } = entry
  entry.held = undefined
  for (const event of held ?? []) entry.listener.told(event)
}

/** A store that is away comes back. */
const awaitStore = (cause: Cause.Cause<unknown>): Effect.Effect<undefined> =>
  Cause.hasInterruptsOnly(cause)
    ? Effect.interrupt
    : Effect.logWarning("Events cannot be read: trying again.", cause).pipe(
        Effect.andThen(Effect.sleep("500 millis")),
        Effect.as(undefined)
      )
