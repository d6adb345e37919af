import { Clock, Context, Effect, Layer, Option, PubSub } from "effect"
import type { WakeUp } from "../../application/ports/storage/EventLog.ts"
import type { Entry, Submission } from "../../application/ports/storage/TurnJournal.ts"
import type { Approval, ApprovalAnswer, ApprovalId } from "../../domain/conversation/Approval.ts"
import type { Message } from "../../domain/conversation/Message.ts"
import type { Session, SessionId } from "../../domain/conversation/Session.ts"
import { isChunk, type SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import type { TurnId, TurnRef, TurnStatus } from "../../domain/conversation/Turn.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { State } from "./State.ts"

/** What the three stores of conversations share. Every change is made in one go, so nobody sees half of it. */
export class Conversations extends Context.Service<
  Conversations,
  {
    /** The sessions of a workspace that are there. */
    readonly sessionsOf: (workspace: OrganizationId) => ReadonlyArray<StoredSession>
    readonly find: (workspace: OrganizationId, id: SessionId) => StoredSession | undefined
    /** Also of one that was removed: how its turns ended. */
    readonly eventsOf: (workspace: OrganizationId, id: SessionId) => StoredSession["events"]
    readonly open: (
      workspace: OrganizationId,
      id: SessionId
    ) => Effect.Effect<{ readonly stored: StoredSession; readonly isNew: boolean }>
    readonly all: () => ReadonlyArray<StoredSession>
    /** Adds to the history and the log of a session. */
    readonly append: (
      stored: StoredSession,
      addition: Pick<Entry, "messages" | "events"> & { readonly turn?: TurnId }
    ) => Effect.Effect<void>
    readonly wakeUps: PubSub.PubSub<WakeUp>
    readonly currents: Map<OrganizationId, SessionId>
  }
>()("gateway/adapters/inmemory/Conversations") {
  static readonly layer = Layer.effect(
    Conversations,
    Effect.gen(function* () {
      const { organizations } = yield* State
      const workspaces = new Map<OrganizationId, Map<SessionId, StoredSession>>()
      const wakeUps = yield* PubSub.unbounded<WakeUp>()
      let messages = 0

      const open = Effect.fnUntraced(function* (workspace: OrganizationId, id: SessionId) {
        if (!organizations.has(workspace)) return yield* Effect.die(new Error(`no organization ${workspace}`))
        const now = yield* Clock.currentTimeMillis
        const own = workspaces.get(workspace) ?? new Map<SessionId, StoredSession>()
        workspaces.set(workspace, own)
        const known = own.get(id)
        if (known !== undefined && !known.isRemoved) return { stored: known, isNew: false }
        const stored: StoredSession = {
          workspace,
          id,
          createdAt: now,
          lastActivity: now,
          title: null,
          isRemoved: false,
          lastEvent: known?.lastEvent ?? 0,
          history: [],
          events: [],
          turns: new Map()
        }
        own.set(id, stored)
        return { stored, isNew: true }
      })

      const append = Effect.fnUntraced(function* (
        stored: StoredSession,
        addition: Pick<Entry, "messages" | "events"> & { readonly turn?: TurnId }
      ) {
        const now = yield* Clock.currentTimeMillis
        for (const message of addition.messages ?? []) {
          stored.history.push({ number: ++messages, message: { ...message, createdAt: now } })
        }
        const { events = [], turn } = addition
        const from = stored.lastEvent + 1
        for (const event of events) stored.events.push({ id: ++stored.lastEvent, turn, event })
        stored.lastActivity = now
        const { id: session, lastEvent: upTo, workspace } = stored
        if (upTo >= from) yield* PubSub.publish(wakeUps, { workspace, session, from, upTo, events })
      })

      const all = () => [...workspaces.values()].flatMap((own) => [...own.values()]).filter(isThere)

      return Conversations.of({
        all,
        sessionsOf: (workspace) => [...(workspaces.get(workspace)?.values() ?? [])].filter(isThere),
        find: (workspace, id) => {
          const stored = workspaces.get(workspace)?.get(id)
          return stored?.isRemoved === false ? stored : undefined
        },
        eventsOf: (workspace, id) => workspaces.get(workspace)?.get(id)?.events ?? [],
        open,
        append,
        wakeUps,
        currents: new Map()
      })
    })
  )
}

export interface StoredSession {
  readonly workspace: OrganizationId
  readonly id: SessionId
  readonly createdAt: number
  lastActivity: number
  title: string | null
  /** What is left of it is the number of its last event. */
  isRemoved: boolean
  lastEvent: number
  history: Array<StoredMessage>
  events: Array<{ readonly id: number; readonly turn: TurnId | undefined; readonly event: SessionEvent }>
  /** In the order of their submission. */
  turns: Map<TurnId, StoredTurn>
}

export interface StoredMessage {
  /** Over all sessions, in the order of time. */
  readonly number: number
  readonly message: Message
}

export interface StoredTurn {
  readonly ref: TurnRef
  readonly submission: Submission
  status: TurnStatus
  cancelRequested: boolean
  /** What each entry remembers. */
  readonly entries: Map<string, unknown>
  readonly questions: Map<ApprovalId, { readonly approval: Approval; answer: ApprovalAnswer | undefined }>
}

const isThere = ({ isRemoved }: StoredSession): boolean => !isRemoved

export const isOpen = ({ status }: StoredTurn): boolean => status === "running" || status === "queued"

export const runningTurn = ({ turns }: StoredSession): Option.Option<StoredTurn> =>
  Option.fromUndefinedOr([...turns.values()].find(({ status }) => status === "running"))

/** Those of turns before this one. */
export const forgetChunks = (stored: StoredSession, turn: TurnId): void => {
  stored.events = stored.events.filter((logged) => logged.turn === turn || !isChunk(logged.event))
}

export const sessionOf = ({ createdAt, history, id, lastActivity, title }: StoredSession): Session => ({
  id,
  createdAt,
  lastActivity,
  messageCount: history.length,
  title
})
