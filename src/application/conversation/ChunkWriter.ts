import { Effect, Latch, Stream } from "effect"
import type { CompletionEvent } from "../../domain/completion/CompletionEvent.ts"
import type { SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import type { TurnRef } from "../../domain/conversation/Turn.ts"
import type { EventLog } from "../ports/storage/EventLog.ts"

/**
 * Shows what a model says while it says it: the first words at once, what follows in groups, so that a fast model costs
 * the store no more than a slow one. Ends with the stream, when everything is in the log. Unless it is shown to anybody,
 * it is only read.
 */
export const showing = <E, R>(
  log: EventLog["Service"],
  turn: TurnRef,
  events: Stream.Stream<CompletionEvent, E, R>,
  each: (event: CompletionEvent) => void,
  isShown: boolean
): Effect.Effect<void, E, R> =>
  Effect.suspend(() => {
    const sessionId = turn.session
    const isWaiting = Latch.makeUnsafe()
    let pieces: Array<{ readonly type: "text" | "reasoning"; content: string }> = []
    let said = false

    const add = (type: "text" | "reasoning", content: string | undefined) => {
      if (content === undefined || content === "") return
      said = true
      const last = pieces.at(-1)
      if (last?.type === type) last.content += content
      else pieces.push({ type, content })
      isWaiting.openUnsafe()
    }

    const read = Stream.runForEach(events, (event) =>
      Effect.sync(() => {
        each(event)
        if (event._tag !== "Delta" || event.index !== 0) return
        add("reasoning", event.reasoning)
        add("text", event.content ?? event.refusal)
      })
    )

    const write = Effect.suspend(() => {
      const written = pieces
      pieces = []
      isWaiting.closeUnsafe()
      return log.append(
        turn,
        written.map((data): SessionEvent => ({ event: "chunk", data: { ...data, sessionId } }))
      )
    })

    const writeAll = Effect.forever(
      isWaiting.await.pipe(Effect.andThen(Effect.uninterruptible(write)), Effect.andThen(Effect.sleep(groupFor)))
    )

    const rest = Effect.suspend(() => {
      const last = pieces.at(-1) ?? { type: "text", content: "" }
      const written = [...pieces.slice(0, -1), { ...last, isComplete: true }]
      return said
        ? log.append(
            turn,
            written.map((data): SessionEvent => ({ event: "chunk", data: { ...data, sessionId } }))
          )
        : Effect.void
    })

    return isShown ? Effect.andThen(Effect.raceFirst(read, writeAll), rest) : read
  })

/** Long enough for a group to be worth a write, short enough to be read as typing. */
const groupFor = "40 millis"
