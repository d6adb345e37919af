import { Effect, Latch, Schema, Stream } from "effect"
import type { CompletionEvent } from "../../domain/completion/CompletionEvent.ts"
import type { SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import type { TurnRef } from "../../domain/conversation/Turn.ts"
import type { EventLog } from "../ports/storage/EventLog.ts"
import { StoreUnavailable } from "../ports/storage/StoreUnavailable.ts"

/**
 * Shows what a model says while it says it: the first words at once, what follows in groups, so that a fast model costs
 * the store no more than a slow one. Ends with the stream, when everything is in the log. A store that is away is waited
 * for meanwhile: that is no reason to ask the model again. Unless it is shown to anybody, it is only read.
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
    let pieces: Array<Piece> = []
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

    /** Writes what is there. False if the store is away: then it stays. */
    const write = Effect.suspend(() => {
      const written = pieces
      pieces = []
      isWaiting.closeUnsafe()
      const keep = Effect.sync(() => {
        pieces = [...written, ...pieces]
        isWaiting.openUnsafe()
        return false
      })
      return log
        .append(
          turn,
          written.map((data): SessionEvent => ({ event: "chunk", data: { ...data, sessionId } }))
        )
        .pipe(
          Effect.as(true),
          Effect.catchDefect((defect) => (isStoreUnavailable(defect) ? keep : Effect.die(defect))),
          Effect.uninterruptible
        )
    })

    const writeAll = isWaiting.await.pipe(
      Effect.andThen(write),
      Effect.flatMap((isWritten) => Effect.sleep(isWritten ? groupFor : awayFor)),
      Effect.forever
    )

    const rest = Effect.suspend(() => {
      if (!said) return Effect.void
      const last = pieces.at(-1) ?? { type: "text", content: "" }
      pieces = [...pieces.slice(0, -1), { ...last, isComplete: true }]
      return write.pipe(
        Effect.tap((isWritten) => (isWritten ? Effect.void : Effect.sleep(awayFor))),
        Effect.repeat({ until: (isWritten) => isWritten }),
        Effect.asVoid
      )
    })

    return isShown ? Effect.andThen(Effect.raceFirst(read, writeAll), rest) : read
  })

interface Piece {
  readonly type: "text" | "reasoning"
  content: string
  readonly isComplete?: true
}

const isStoreUnavailable = Schema.is(StoreUnavailable)

/** How soon a store that was away is tried again. */
const awayFor = "500 millis"

/** Long enough for a group to be worth a write, short enough to be read as typing. */
const groupFor = "40 millis"
