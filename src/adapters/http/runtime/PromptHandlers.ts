import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Prompts } from "../../../application/prompt/Prompts.ts"
import { valuesOf } from "../../../domain/prompt/Resolve.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const PromptHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "prompts",
  Effect.fnUntraced(function* (handlers) {
    const prompts = yield* Prompts

    return handlers
      .handle("listPrompts", () =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => prompts.list(id)).pipe(Effect.map((list) => ({ prompts: list })))
      )
      .handle("getPrompt", ({ params: { name } }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => prompts.find(id, name)).pipe(
          Effect.map((definition) => ({ definition })),
          Effect.catchTags({ PromptNotFound: refuse(404) })
        )
      )
      .handle("resolvePrompt", ({ params: { name }, query: { args = {}, context = "" } }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => prompts.resolve(id, name, valuesOf(args), context.trim())).pipe(
          Effect.catchTags({
            PromptNotFound: refuse(404),
            MissingArguments: refuse(400),
            McpFailed: (error) => refuse(error.reason === "refused" ? 400 : 502)(error)
          })
        )
      )
      .handle("createPrompt", ({ payload }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => prompts.create(id, payload)).pipe(
          Effect.map((prompt) => ({ prompt })),
          Effect.catchTags({ PromptExists: refuse(400) })
        )
      )
      .handle("deletePrompt", ({ params: { name } }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => prompts.remove(id, name)).pipe(
          Effect.catchTags({ PromptNotFound: refuse(404), PromptNotCustom: refuse(400) })
        )
      )
  })
)

/** `{error}` (section 7.2). */
const refuse =
  (status: number) =>
  ({ message }: { readonly message: string }) =>
    Effect.succeed(messageEnvelope(status, message))
