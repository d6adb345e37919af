import { Effect, Option, Queue, Redacted, Schema } from "effect"
import type { ApprovalAnswer } from "../../domain/conversation/Approval.ts"
import { SessionId } from "../../domain/conversation/Session.ts"
import { SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import type { Gateway } from "./Options.ts"

/** The service cannot be talked to, or does not take what it was sent. */
export class ChatFailed extends Schema.TaggedError<ChatFailed>()("ChatFailed", { message: Schema.String }) {}

/** What comes with a message (section 4.9). */
export interface Attachments {
  readonly imageData?: { readonly base64: string; readonly mimeType: string }
  readonly fileData?: { readonly base64: string; readonly mimeType: string; readonly filename: string }
}

/** `{error}` of section 7.2. */
const refusalOf = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({ error: Schema.String })))

const Opened = Schema.Struct({ session: Schema.Struct({ id: SessionId }) })

const Anything = Schema.Struct({})

const eventOf = Schema.decodeUnknownOption(SessionEvent)
const dataOf = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))

/** How long a lost connection is given before it is made anew. */
const pause = "500 millis"

/** The runtime's public interface, as far as a conversation needs it. */
export const make = ({ key, url }: Gateway) => {
  const base = url.replace(/\/+$/, "")
  const authorization = Option.match(key, {
    onNone: () => ({}),
    onSome: (secret) => ({ authorization: `Bearer ${Redacted.value(secret)}` })
  })

  const unreachable = (cause: unknown) => new ChatFailed({ message: `${base} cannot be reached: ${reasonOf(cause)}.` })

  const refused = (path: string, status: number, text: string) =>
    new ChatFailed({
      message: Option.match(refusalOf(text), {
        onNone: () => `${base}${path} answers status ${status}: is it this service?`,
        onSome: ({ error }) => error
      })
    })

  const call = Effect.fnUntraced(function* <A>(
    path: string,
    body: Anything,
    schema: Schema.Decoder<A>
  ): Effect.fn.Return<A, ChatFailed> {
    const { isOk, status, text } = yield* Effect.tryPromise({
      try: async (signal) => {
        const headers = { ...authorization, "content-type": "application/json" }
        const response = await fetch(`${base}${path}`, { method: "POST", signal, headers, body: JSON.stringify(body) })
        return { isOk: response.ok, status: response.status, text: await response.text() }
      },
      catch: unreachable
    })
    const answer = isOk ? Schema.decodeUnknownOption(Schema.fromJsonString(schema))(text) : Option.none()
    return Option.isSome(answer) ? answer.value : yield* refused(path, status, text)
  })

  /**
   * What happens in a session from now on, until the scope closes. A connection that is lost is made anew and goes on
   * after the last event that came, so that nothing is missed or comes twice. It fails when the service does not want it.
   */
  const follow = Effect.fnUntraced(function* (session: SessionId) {
    const events = yield* Queue.unbounded<SessionEvent, ChatFailed>()
    const path = `/api/sessions/${encodeURIComponent(session)}/events`
    const closing = new AbortController()
    yield* Effect.addFinalizer(() => Effect.sync(() => closing.abort()))
    let last = ""

    const connect = Effect.tryPromise({
      try: () =>
        fetch(`${base}${path}`, {
          signal: closing.signal,
          headers: { ...authorization, ...(last === "" ? {} : { "last-event-id": last }) }
        }),
      catch: unreachable
    })

    /** Reads a stream to its end, which is no failure, whatever it is. */
    const read = (response: Response) =>
      Effect.promise(async () => {
        const parser = new EventParser(last)
        try {
          for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
            for (const { data, name } of parser.parse(piece)) {
              const event = eventOf({ event: name, data: Option.getOrNull(dataOf(data)) })
              if (Option.isSome(event)) Queue.offerUnsafe(events, event.value)
            }
            last = parser.lastId
          }
        } catch {
          // The connection is lost: it is made anew.
        }
      })

    const wanted = Effect.fnUntraced(function* (response: Response) {
      if (response.ok) return response
      const text = yield* Effect.promise(() => response.text().catch(() => ""))
      return yield* refused(path, response.status, text)
    })

    /** A service that restarts comes back. */
    const again = connect.pipe(
      Effect.filterOrFail(
        ({ status }) => status < 500,
        ({ status }) => refused(path, status, "")
      ),
      Effect.tapError(() => Effect.sleep(pause)),
      Effect.eventually,
      Effect.flatMap(wanted)
    )

    const first = yield* Effect.flatMap(connect, wanted)
    yield* read(first).pipe(
      Effect.andThen(again.pipe(Effect.flatMap(read), Effect.delay(pause), Effect.forever)),
      Effect.catch((error) => Queue.fail(events, error)),
      Effect.forkScoped
    )
    return events
  })

  return {
    follow,
    /** A session, a new one without an id. */
    open: (id: SessionId | undefined) =>
      Effect.map(call("/api/sessions", id === undefined ? {} : { sessionId: id }, Opened), ({ session }) => session.id),
    send: (sessionId: SessionId, message: string, attachments: Attachments) =>
      call("/api/message", { message, sessionId, stream: true, ...attachments }, Anything),
    cancel: (sessionId: SessionId) => call(`/api/sessions/${encodeURIComponent(sessionId)}/cancel`, {}, Anything),
    approve: (approvalId: string, answer: ApprovalAnswer) =>
      call(`/api/approvals/${encodeURIComponent(approvalId)}`, answer, Anything)
  }
}

export type ChatClient = ReturnType<typeof make>

type Anything = typeof Anything.Type

const reasonOf = (cause: unknown): string =>
  cause instanceof Error ? (cause.cause instanceof Error ? cause.cause.message : cause.message) : String(cause)

/** Server-sent events, as far as the service sends them: lines end with a line feed. */
class EventParser {
  /** Of the last event that came whole; before the first one, the number that the stream says it begins after. */
  lastId: string
  #id = ""
  #rest = ""
  #name = ""
  #data: Array<string> = []

  constructor(lastId: string) {
    this.lastId = lastId
  }

  parse(piece: string): ReadonlyArray<{ readonly name: string; readonly data: string }> {
    const lines = (this.#rest + piece).split("\n")
    this.#rest = lines.pop() ?? ""
    const events: Array<{ readonly name: string; readonly data: string }> = []
    for (const line of lines) {
      const [, field, value = ""] = /^([a-z]+): ?(.*)$/s.exec(line) ?? []
      if (field === "id" && this.lastId === "") this.lastId = value
      else if (field === "id") this.#id = value
      else if (field === "event") this.#name = value
      else if (field === "data") this.#data.push(value)
      else if (line === "" && this.#data.length > 0) {
        events.push({ name: this.#name, data: this.#data.join("\n") })
        this.lastId = this.#id
        this.#name = ""
        this.#data = []
      }
    }
    return events
  }
}
