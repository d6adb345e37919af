import { Console, Effect, FileSystem, Option, Path, Predicate, Queue, Result, Schema, type Scope } from "effect"
import { Command, Flag } from "effect/cli"
import { createInterface } from "node:readline"
import type { ApprovalAnswer } from "../../domain/conversation/Approval.ts"
import { SessionId } from "../../domain/conversation/Session.ts"
import type { SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import { type Attachments, type ChatClient, ChatFailed, make as clientOf } from "./ChatClient.ts"
import { make as screenOf, plain, type Screen } from "./ChatScreen.ts"
import type { Failure, Gateway } from "./Options.ts"
import * as Parameters from "./Parameters.ts"

type Answer = Extract<SessionEvent, { readonly event: "response" | "error" }>
type Question = Extract<SessionEvent, { readonly event: "approvalRequest" }>["data"]

/** Types of what may be attached (section 4.9), by the ends of names. */
const images = new Map([
  [".png", "image/png"],
  [".jpg", "image/jpeg"],
  [".jpeg", "image/jpeg"],
  [".gif", "image/gif"],
  [".webp", "image/webp"]
])
const files = new Map([
  [".pdf", "application/pdf"],
  [".mp3", "audio/mp3"],
  [".wav", "audio/wav"]
])

const help = `/image <path>  attach an image to the next message
/file <path>   attach a PDF, MP3 or WAV file to the next message
/new           begin a new session
/quit          leave; so does Ctrl+D
Ctrl+C cancels the answer that is being made; otherwise, and the second time, it leaves.
A message that begins with / is written with two of them.`

/** The lines that somebody types, or that a program writes. */
interface Lines {
  /** Undefined at their end, and at Ctrl+C. */
  readonly next: (prompt: string) => Effect.Effect<string | undefined>
  /** Completes at the next Ctrl+C in a terminal. */
  readonly interrupted: Effect.Effect<void>
}

/** Of nobody who could be asked. */
const noLines: Lines = { next: () => Effect.undefined, interrupted: Effect.never }

const linesOf = (isTerminal: boolean): Effect.Effect<Lines, never, Scope.Scope> =>
  Effect.gen(function* () {
    const lines = yield* Queue.unbounded<string | undefined>()
    const interrupts = yield* Queue.unbounded<void>()
    const reader = yield* Effect.acquireRelease(
      Effect.sync(() => createInterface({ input: process.stdin, ...(isTerminal ? { output: process.stdout } : {}) })),
      (open) => Effect.sync(() => open.close())
    )
    let isAwaited = false
    reader.on("line", (line) => Queue.offerUnsafe(lines, line))
    reader.on("close", () => Queue.offerUnsafe(lines, undefined))
    reader.on("SIGINT", () => {
      if (isAwaited) Queue.offerUnsafe(lines, undefined)
      Queue.offerUnsafe(interrupts, undefined)
    })
    const next = (prompt: string) =>
      Effect.suspend(() => {
        isAwaited = true
        if (isTerminal) {
          reader.setPrompt(prompt)
          reader.prompt()
        }
        return Queue.take(lines)
      }).pipe(
        Effect.tap(() =>
          Effect.sync(() => {
            isAwaited = false
          })
        )
      )
    return { next, interrupted: Queue.take(interrupts) }
  })

/** What a turn is shown with, and asks with. */
interface Talk {
  readonly client: ChatClient
  readonly screen: Screen | undefined
  readonly ask: (question: Question) => Effect.Effect<ApprovalAnswer>
}

/** Sends a message and shows all that comes of it; gives its end. Whoever goes away meanwhile cancels it. */
const turn = (
  { ask, client, screen }: Talk,
  session: SessionId,
  events: Queue.Dequeue<SessionEvent, ChatFailed>,
  message: string,
  attachments: Attachments
): Effect.Effect<Answer, ChatFailed> =>
  Effect.gen(function* () {
    yield* client.send(session, message, attachments)
    for (;;) {
      const event = yield* Queue.take(events)
      screen?.show(event)
      if (event.event === "response" || event.event === "error") return event
      if (event.event !== "approvalRequest") continue
      // Whoever else listens may have answered first.
      yield* ask(event.data).pipe(
        Effect.flatMap((answer) => client.approve(event.data.approvalId, answer)),
        Effect.catch(({ message: why }) => Effect.sync(() => screen?.note(why)))
      )
    }
  }).pipe(Effect.onInterrupt(() => Effect.ignore(Effect.timeout(client.cancel(session), "2 seconds"))))

/** Asks a person. No line, no permission. */
const asking =
  (lines: Lines, screen: Screen | undefined) =>
  (question: Question): Effect.Effect<ApprovalAnswer> =>
    question.type === "elicitation" ? filled(lines, screen, question) : confirmed(lines, screen, question)

const confirmed = Effect.fnUntraced(function* (lines: Lines, screen: Screen | undefined, { metadata }: Question) {
  const { args, toolName } = metadata
  const name = Predicate.isString(toolName) ? toolName : "a tool"
  screen?.note(`The agent wants to use ${name} with ${JSON.stringify(args ?? {})}.`)
  for (;;) {
    const line = yield* lines.next("Allow? [y]es, [n]o, [a]lways: ")
    const said = line?.trim().toLowerCase()
    if (said === "y" || said === "yes") return { status: "approved" } as const
    if (said === "a" || said === "always") return { status: "approved", rememberChoice: true } as const
    if (said === undefined || said === "n" || said === "no") return { status: "denied" } as const
  }
})

/** As far as a form is flat, which those of MCP are. */
const Form = Schema.Struct({
  properties: Schema.Record(
    Schema.String,
    Schema.Struct({
      type: Schema.optionalKey(Schema.String),
      title: Schema.optionalKey(Schema.String),
      description: Schema.optionalKey(Schema.String)
    })
  )
})

const filled = Effect.fnUntraced(function* (lines: Lines, screen: Screen | undefined, { metadata }: Question) {
  const form = Schema.decodeUnknownOption(Form)(metadata["schema"])
  const { message } = metadata
  screen?.note(`${Predicate.isString(message) ? message : "The agent asks:"} (/no: no answer)`)
  const formData: Record<string, Schema.Json> = {}
  const fields = Option.match(form, { onNone: () => [], onSome: ({ properties }) => Object.entries(properties) })
  for (const [name, { description, title, type }] of fields) {
    const line = yield* lines.next(`${plain(title ?? description ?? name)}: `)
    if (line === undefined || line.trim() === "/no") return { status: "cancelled" } as const
    if (line !== "") formData[name] = valueOf(line, type)
  }
  return { status: "approved", formData } as const
})

/** What cannot be what the form wants goes as it is: whoever asks says what is wrong with it. */
const valueOf = (line: string, type: string | undefined): Schema.Json => {
  const text = line.trim()
  if (type === "boolean" && /^(?:y|yes|true)$/i.test(text)) return true
  if (type === "boolean" && /^(?:n|no|false)$/i.test(text)) return false
  if ((type === "number" || type === "integer") && text !== "" && Number.isFinite(Number(text))) return Number(text)
  return line
}

/** A file, to be sent with the next message. */
const attachment = Effect.fnUntraced(function* (kind: "image" | "file", given: string) {
  const path = yield* Path.Path
  const mimeType = (kind === "image" ? images : files).get(path.extname(given).toLowerCase())
  if (mimeType === undefined) {
    const known = [...(kind === "image" ? images : files).keys()].join(", ")
    return yield* new ChatFailed({ message: `Expected a file that ends in one of ${known}, not ${given}` })
  }
  const bytes = yield* Effect.mapError(
    (yield* FileSystem.FileSystem).readFile(given),
    () => new ChatFailed({ message: `Cannot read ${given}` })
  )
  const base64 = Buffer.from(bytes).toString("base64")
  const attached: Attachments =
    kind === "image"
      ? { imageData: { base64, mimeType } }
      : { fileData: { base64, mimeType, filename: path.basename(given) } }
  return attached
})

/** An event as a program reads it. */
const toJson = ({ data, event }: Answer | { readonly event: "approvalRequest"; readonly data: Question }): string =>
  JSON.stringify({ event, ...data })

/** One message, its answer, and no more. */
const once = Effect.fnUntraced(function* (talk: Talk, given: SessionId | undefined, message: string, json: boolean) {
  const session = yield* talk.client.open(given)
  const events = yield* talk.client.follow(session)
  const end = yield* turn(talk, session, events, message, {})
  if (json) yield* Console.log(toJson(end))
  if (end.event === "error") return yield* new ChatFailed({ message: plain(end.data.message) })
})

/** Message after message, until there are no more lines. */
const converse = Effect.fnUntraced(function* (talk: Talk, lines: Lines, given: SessionId | undefined, json: boolean) {
  const tell = (text: string) => Effect.sync(() => talk.screen?.note(text))
  let running: SessionId | undefined
  let isCancelling = false

  const say = Effect.fnUntraced(function* (
    session: SessionId,
    events: Queue.Dequeue<SessionEvent, ChatFailed>,
    message: string,
    attachments: Attachments
  ) {
    running = session
    const said = yield* Effect.result(turn(talk, session, events, message, attachments))
    running = undefined
    isCancelling = false
    if (Result.isFailure(said)) return yield* Console.error(plain(said.failure.message))
    if (json) yield* Console.log(toJson(said.success))
    if (said.success.event === "error") yield* Console.error(plain(said.success.data.message))
  })

  /** One session. Gives whether another begins. */
  const inSession = Effect.fnUntraced(
    function* (id: SessionId | undefined) {
      const session = yield* talk.client.open(id)
      const events = yield* talk.client.follow(session)
      yield* tell(`Session ${session}. /help lists what can be done.`)
      let attachments: Attachments = {}
      for (;;) {
        const line = yield* lines.next("> ")
        if (line === undefined) return false
        const [, word, argument = ""] = /^\/([a-z]+)(?:\s+(.*))?$/s.exec(line.trim()) ?? []
        // Of turns that others began meanwhile.
        yield* Effect.repeat(Queue.poll(events), { until: Option.isNone })
        if (line.trim() === "") continue
        if (word === "quit" || word === "exit") return false
        if (word === "new") return true
        if (word === "help") yield* tell(help)
        else if (word === "image" || word === "file") {
          yield* attachment(word, argument).pipe(
            Effect.flatMap((attached) => {
              attachments = { ...attachments, ...attached }
              return tell(`Attached ${argument} to the next message.`)
            }),
            Effect.catchTags({ ChatFailed: ({ message }) => Console.error(message) })
          )
        } else if (line.startsWith("/") && !line.startsWith("//")) {
          yield* Console.error(`There is no command ${plain(line.trim())}. /help lists them.`)
        } else {
          yield* say(session, events, line.startsWith("//") ? line.slice(1) : line, attachments)
          attachments = {}
        }
      }
    },
    (effect) => Effect.scoped(effect)
  )

  const talking = Effect.gen(function* () {
    let id = given
    while (yield* inSession(id)) id = undefined
  })

  const leaving = Effect.gen(function* () {
    for (;;) {
      yield* lines.interrupted
      if (running === undefined || isCancelling) return
      isCancelling = true
      yield* tell("Cancelling. Once more to leave.")
      yield* Effect.forkChild(Effect.ignore(talk.client.cancel(running)))
    }
  })

  yield* Effect.raceFirst(talking, leaving)
})

export const chat = (gateway: Effect.Effect<Gateway, Failure>) =>
  Command.make(
    "chat",
    {
      url: Flag.String("url").pipe(
        Flag.withDescription("Where the service is: GATEWAY_URL, or this machine's, if not given"),
        Flag.withMetavar("url"),
        Flag.optional
      ),
      key: Flag.Redacted("key").pipe(
        Flag.withDescription("Key of a member: GATEWAY_KEY if not given, which no other user of the machine sees"),
        Flag.withMetavar("key"),
        Flag.optional
      ),
      session: Parameters.flag("session", SessionId).pipe(
        Flag.withDescription("Go on with this session; a new one if not given"),
        Flag.withMetavar("id"),
        Flag.optional
      ),
      message: Flag.String("message").pipe(
        Flag.withDescription("Send this, print the answer and end"),
        Flag.withMetavar("text"),
        Flag.optional
      ),
      json: Flag.Boolean("json").pipe(
        Flag.withDescription("Print one line of JSON for each answer and each question"),
        Flag.withDefault(false)
      )
    },
    Effect.fnUntraced(function* ({ json, key, message, session, url }) {
      const configured = yield* gateway
      const client = clientOf({
        url: Option.getOrElse(url, () => configured.url),
        key: Option.orElse(key, () => configured.key)
      })
      const given = Option.getOrUndefined(session)
      const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true
      const screen = json
        ? undefined
        : screenOf(
            (text) => void process.stdout.write(text),
            (text) => void (isTerminal ? process.stdout : process.stderr).write(text),
            isTerminal
          )
      // What is piped to one message is no answer to a question.
      const lines = Option.isNone(message) || isTerminal ? yield* linesOf(isTerminal) : noLines
      const ask = asking(lines, screen)
      const talk: Talk = {
        client,
        screen,
        ask: (question) =>
          Effect.andThen(
            json ? Console.log(toJson({ event: "approvalRequest", data: question })) : Effect.void,
            ask(question)
          )
      }
      if (Option.isNone(message)) return yield* converse(talk, lines, given, json)
      yield* Effect.raceFirst(once(talk, given, message.value, json), lines.interrupted)
    }, Effect.scoped)
  ).pipe(
    Command.withDescription("Talk to the agent in the terminal"),
    Command.withExamples(({ commandPath }) => [
      { command: commandPath.join(" "), description: "Talk, with this machine's service" },
      { command: `${commandPath.join(" ")} --message "What is in README.md?"`, description: "One answer" },
      { command: `GATEWAY_KEY=sk-gw-... ${commandPath.join(" ")} --url https://agents.example.com` }
    ])
  )
