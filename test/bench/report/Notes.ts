import { Console, Context, Effect, Layer } from "effect"

/** What a run could not do, and why: printed at once and kept with the results, so that no gap looks like a figure. */
export class Notes extends Context.Service<
  Notes,
  {
    readonly add: (note: string) => Effect.Effect<void>
    readonly all: () => ReadonlyArray<string>
  }
>()("bench/Notes") {
  static readonly layer = Layer.sync(Notes, () => {
    const notes: Array<string> = []
    return Notes.of({
      add: (note) =>
        Effect.andThen(
          Effect.sync(() => notes.push(note)),
          Console.error(`! ${note}`)
        ),
      all: () => notes
    })
  })
}

/** The effect, or nothing and a note. */
export const orNote = <A, E extends { readonly message: string }, R>(what: string, effect: Effect.Effect<A, E, R>) =>
  Effect.catch(effect, (error) =>
    Effect.gen(function* () {
      yield* (yield* Notes).add(`${what}: ${error.message}`)
      return undefined
    })
  )
