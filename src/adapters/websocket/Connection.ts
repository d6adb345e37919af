import { Effect } from "effect"
import type { WebSocket } from "ws"
import type { AgentEvent } from "../../application/agent/RunningAgents.ts"
import type { Listener, Listening } from "../../application/conversation/Listen.ts"
import type { NumberedEvent } from "../../domain/conversation/SessionEvent.ts"
import type { Caller } from "../../domain/identity/ApiKey.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { agentFrame, sessionFrame } from "./ServerFrame.ts"

/** Who opened a socket. */
export interface Guest {
  readonly workspace: OrganizationId
  /** Nobody known while the runtime is open (decisions 1). */
  readonly caller: Caller | undefined
  /** "" while the runtime is open. */
  readonly key: string
}

/** Bytes that a client has not read yet, beyond which it is no longer waited for. */
const mostUnread = 4 * 1024 * 1024

/** Bytes that a client may have unread while it is told of more that it has asked for. */
const someUnread = 256 * 1024

/** A client that takes nothing of what it asked for, for so long, will not. */
const patience = "30 seconds"

/** A client that does not answer a closing frame is cut off after so many milliseconds. */
const parting = 2_000

/** Frames that wait for those before them, beyond which the client is not read. */
const mostWaiting = 16

/** The codes that sockets are closed with, of RFC 6455 and IANA's registry. */
export const closing = {
  keyRevoked: { code: 1008, reason: "The key is no longer valid." },
  tooBig: { code: 1009, reason: "The frame is too big." },
  restarting: { code: 1012, reason: "The service restarts: connect again." },
  unread: { code: 1013, reason: "Too much was not read: connect again and subscribe with `after`." }
} as const

/**
 * A client's socket. There are thousands in a process, nearly all idle: each has no more than it needs, no fiber and no
 * timer of its own.
 */
export class Connection implements Listener {
  readonly guest: Guest
  /** When it was opened. Epoch milliseconds, as the others. */
  readonly since: number
  /** When the client last gave a sign of life. */
  heard: number
  /** When it was last asked for one. */
  asked: number
  /** When the service began to close it; 0 while it has not. */
  closed = 0
  listening: Listening | undefined
  /** Frames that came and are not answered yet. */
  waiting: Array<Buffer> = none
  /** Whether somebody works on them. */
  isBusy = false
  readonly #ws: WebSocket

  constructor(ws: WebSocket, guest: Guest, now: number) {
    this.#ws = ws
    this.guest = guest
    this.since = this.heard = this.asked = now
  }

  told(event: NumberedEvent): void {
    this.send(sessionFrame(event))
  }

  agent(event: AgentEvent): void {
    this.send(agentFrame(event))
  }

  get room(): Effect.Effect<void> {
    return this.#hasRoom
      ? Effect.void
      : Effect.sleep("20 millis").pipe(
          Effect.repeat({ until: () => this.#hasRoom }),
          Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.sync(() => this.close(closing.unread)) }),
          Effect.asVoid
        )
  }

  get #hasRoom(): boolean {
    return this.closed > 0 || this.#ws.bufferedAmount <= someUnread
  }

  send(frame: Buffer | string): void {
    if (this.closed > 0 || this.#ws.readyState !== this.#ws.OPEN) return
    this.#ws.send(frame, { binary: false })
    if (this.#ws.bufferedAmount > mostUnread) this.close(closing.unread)
  }

  /** Takes a frame to be worked on; a client that is faster than the service is not read for a while. */
  push(frame: Buffer): void {
    if (this.waiting === none) this.waiting = []
    this.waiting.push(frame)
    if (this.waiting.length >= mostWaiting || frame.byteLength > someUnread) this.#ws.pause()
  }

  next(): Buffer | undefined {
    const frame = this.waiting.shift()
    if (this.waiting.length > 0) return frame
    this.waiting = none
    if (this.#ws.isPaused) this.#ws.resume()
    return frame
  }

  ask(now: number): void {
    this.asked = now
    if (this.#ws.readyState === this.#ws.OPEN) this.#ws.ping()
  }

  /** Asks the client to go, and tells it nothing any more. */
  close({ code, reason }: { readonly code: number; readonly reason: string }): void {
    if (this.closed > 0) return
    this.closed = Date.now()
    this.listening?.stop()
    this.waiting = none
    this.#ws.resume()
    this.#ws.close(code, reason)
  }

  /** Cuts off a client that was asked to go and did not. */
  hasStayed(now: number): boolean {
    return this.closed > 0 && now - this.closed > parting
  }

  cut(): void {
    this.#ws.terminate()
  }
}

/** What idle sockets share. */
const none: Array<Buffer> = []
