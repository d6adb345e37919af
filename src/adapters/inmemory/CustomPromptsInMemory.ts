import { Array, Effect, Layer, Option, Order } from "effect"
import { CustomPrompts } from "../../application/ports/storage/CustomPrompts.ts"
import type { CustomPrompt, Prompt } from "../../domain/prompt/Prompt.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { State } from "./State.ts"

const byName = Order.mapInput(Order.String, ({ name }: Prompt) => name)

export const layer = Layer.effect(
  CustomPrompts,
  Effect.gen(function* () {
    const { organizations } = yield* State
    const stored = new Map<OrganizationId, Map<string, CustomPrompt>>()

    return CustomPrompts.of({
      insert: (workspace, prompt) =>
        Effect.suspend(() => {
          if (!organizations.has(workspace)) return Effect.die(new Error(`no organization ${workspace}`))
          const own = stored.get(workspace) ?? new Map<string, CustomPrompt>()
          if (own.has(prompt.prompt.name)) return Effect.succeed(false)
          stored.set(workspace, own.set(prompt.prompt.name, prompt))
          return Effect.succeed(true)
        }),
      find: (workspace, name) => Effect.sync(() => Option.fromUndefinedOr(stored.get(workspace)?.get(name))),
      list: (workspace) =>
        Effect.sync(() =>
          Array.sort(
            Array.map([...(stored.get(workspace)?.values() ?? [])], ({ prompt }) => prompt),
            byName
          )
        ),
      remove: (workspace, name) =>
        Effect.sync(() => {
          const removed = stored.get(workspace)?.get(name)
          stored.get(workspace)?.delete(name)
          return Option.map(Option.fromUndefinedOr(removed), ({ id }) => id)
        })
    })
  })
)
