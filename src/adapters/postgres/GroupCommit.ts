import { Deferred, Effect, Exit, Fiber, type Scope } from "effect"

/**
 * One statement in flight per kind of write; everything that arrives meanwhile goes into the next one. Under load this
 * is an order of magnitude more writes per second than one transaction each, and alone it adds nothing. When a batch
 * fails, its items are tried one by one, so that a bad one harms only itself.
 */
export const make = <Item, Answer, E>(
  run: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Answer>, E>,
  most = 512
): Effect.Effect<(item: Item) => Effect.Effect<Answer, E>, never, Scope.Scope> =>
  Effect.gen(function*() {
    const scope = yield* Effect.scope
    let waiting: Array<{ readonly item: Item; readonly answer: Deferred.Deferred<Answer, E> }> = []
    let writer: Fiber.Fiber<void> | undefined

    const runAlone = (item: Item) =>
      Effect.map(run([item]), ([answer]) => answer as Answer)

    const write = Effect.gen(function*() {
      while (waiting.length > 0) {
        const batch = waiting.slice(0, most)
        waiting = waiting.slice(most)
        const exit = yield* Effect.exit(run(batch.map(({ item }) => item)))
        yield* Effect.forEach(
          batch,
          ({ answer, item }, index) =>
            Exit.isSuccess(exit)
              ? Deferred.succeed(answer, exit.value[index] as Answer)
              : batch.length === 1
              ? Deferred.failCause(answer, exit.cause)
              : Effect.flatMap(Effect.exit(runAlone(item)), (alone) => Deferred.done(answer, alone)),
          { discard: true }
        )
      }
    })

    return (item) =>
      Effect.gen(function*() {
        const answer = yield* Deferred.make<Answer, E>()
        waiting.push({ item, answer })
        if (writer === undefined) {
          writer = yield* write.pipe(
            Effect.ensuring(Effect.sync(() => {
              writer = undefined
            })),
            Effect.uninterruptible,
            Effect.forkIn(scope)
          )
        }
        return yield* Deferred.await(answer)
      })
  })
