import { Effect, Layer, Stream } from "effect"
import { EventLog } from "../../application/ports/storage/EventLog.ts"
import { Conversations } from "./Conversations.ts"

export const layer = Layer.effect(
  EventLog,
  Effect.gen(function* () {
    const { append, eventsOf, find, wakeUps } = yield* Conversations

    return EventLog.of({
      append: Effect.fnUntraced(function* ({ session, turn, workspace }, events) {
        const stored = find(workspace, session)
        if (stored?.turns.get(turn)?.status === "running") yield* append(stored, { turn, events })
      }),
      after: (workspace, session, id, limit) =>
        Effect.sync(() =>
          eventsOf(workspace, session)
            .filter((logged) => logged.id > id)
            .slice(0, limit)
            .map((logged) => ({ id: logged.id, session, event: logged.event }))
        ),
      last: (workspace, session) => Effect.sync(() => find(workspace, session)?.lastEvent ?? 0),
      wakeUps: Stream.fromPubSub(wakeUps)
    })
  })
)
