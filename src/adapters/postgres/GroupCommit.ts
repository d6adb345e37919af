import { Cause, Deferred, Effect, Exit, Fiber, Option, Queue, type Scope } from "effect"

export interface Options<E> {
  /** How many items one statement takes. */
  readonly most?: number
  /** Whether an error can be one item's fault. The others, such as a lost connection, are everybody's. */
  readonly mayBlameItem: (error: E) => boolean
}

/**
 * One statement in flight per kind of write; everything that arrives meanwhile goes into the next one, in order. Under
 * load this is many more writes per second than one transaction each, and alone it adds nothing. When
 * a batch fails by an item's fault, its items are tried one by one, so that a bad one harms only itself. What waits is
 * written before the scope closes, also what its sender no longer waits for.
 */
export const make = Effect.fnUntraced(function* <Item, Answer, E>(
  run: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Answer>, E>,
  { mayBlameItem, most = 512 }: Options<E>
): Effect.fn.Return<(item: Item) => Effect.Effect<Answer, E>, never, Scope.Scope> {
  const waiting = yield* Queue.unbounded<Waiting<Item, Answer, E>, Cause.Done>()

  const statement = (batch: ReadonlyArray<Waiting<Item, Answer, E>>) =>
    Effect.suspend(() => run(batch.map(({ item }) => item)))

  const runAlone = (one: Waiting<Item, Answer, E>) =>
    Deferred.into(
      Effect.map(statement([one]), ([only]) => only as Answer),
      one.answer
    )

  const isItemsFault = (cause: Cause.Cause<E>) =>
    Option.match(Cause.findErrorOption(cause), { onNone: () => true, onSome: mayBlameItem })

  /** Takes what waits, at least one item, and sends it: the statement is on its way when this returns. */
  const send = Queue.takeBetween(waiting, 1, most).pipe(
    Effect.flatMap((batch) =>
      Effect.map(
        Effect.forkDetach(statement(batch), { startImmediately: true }),
        (running): Round<Item, Answer, E> => ({ batch, running })
      )
    )
  )

  const fail = Effect.fnUntraced(function* (batch: ReadonlyArray<Waiting<Item, Answer, E>>, cause: Cause.Cause<E>) {
    if (batch.length > 1 && isItemsFault(cause)) return yield* Effect.forEach(batch, runAlone, { discard: true })
    const failure = Exit.failCause(cause)
    // What is everybody's fault is also that of whoever waited meanwhile: nobody waits for a second failure.
    const others = isItemsFault(cause) ? [] : yield* Queue.clear(waiting)
    for (const { answer } of [...batch, ...others]) Deferred.doneUnsafe(answer, failure)
  })

  const writer = yield* Effect.gen(function* () {
    let round = yield* send
    for (;;) {
      const { batch, running } = round
      const exit = yield* Fiber.await(running)
      if (Exit.isFailure(exit)) {
        yield* fail(batch, exit.cause)
        round = yield* send
        continue
      }
      // Who gets an answer goes on at once, one after the other: meanwhile the store has the next round.
      const next = Queue.sizeUnsafe(waiting) === 0 ? undefined : yield* send
      batch.forEach(({ answer }, index) => Deferred.doneUnsafe(answer, Exit.succeed(exit.value[index] as Answer)))
      round = next ?? (yield* send)
    }
  }).pipe(
    Effect.catchIf(Cause.isDone, () => Effect.void),
    Effect.forkDetach
  )
  yield* Effect.addFinalizer(() => Effect.andThen(Queue.end(waiting), Fiber.await(writer)))

  return (item) =>
    Effect.suspend(() => {
      const answer = Deferred.makeUnsafe<Answer, E>()
      return Queue.offerUnsafe(waiting, { item, answer }) ? Deferred.await(answer) : Effect.interrupt
    })
})

interface Waiting<Item, Answer, E> {
  readonly item: Item
  readonly answer: Deferred.Deferred<Answer, E>
}

/** A batch whose statement is on its way. */
interface Round<Item, Answer, E> {
  readonly batch: ReadonlyArray<Waiting<Item, Answer, E>>
  readonly running: Fiber.Fiber<ReadonlyArray<Answer>, E>
}
