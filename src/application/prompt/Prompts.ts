import { Context, Effect, Layer, Option, Schema } from "effect"
import type { AgentConfig } from "../../domain/agent/AgentConfig.ts"
import { builtinPrompts } from "../../domain/prompt/BuiltinPrompts.ts"
import { type NewPrompt, type Prompt, PromptName, promptOf, type PromptText } from "../../domain/prompt/Prompt.ts"
import {
  type MissingArguments,
  PromptExists,
  PromptNotCustom,
  PromptNotFound
} from "../../domain/prompt/PromptErrors.ts"
import { type ArgumentValues, complete, resolved, withParagraph } from "../../domain/prompt/Resolve.ts"
import { blobUri } from "../../domain/resource/Blob.ts"
import { mcpUri } from "../../domain/resource/Resource.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { type RunningAgent, RunningAgents } from "../agent/RunningAgents.ts"
import type { McpFailed } from "../ports/mcp/McpConnector.ts"
import { Ids } from "../ports/runtime/Ids.ts"
import { Blobs } from "../ports/storage/Blobs.ts"
import { CustomPrompts } from "../ports/storage/CustomPrompts.ts"
import { type OfferedPrompt, offeredPrompts } from "./McpPrompts.ts"

/** A prompt with its arguments in their places, and the addresses of the resources that belong to it. */
export interface ResolvedPrompt {
  readonly text: string
  readonly resources: ReadonlyArray<string>
}

/**
 * The prompts of a workspace (section 4.7): the user's own, those packaged with the service, the starter prompts of its
 * agent and those of the agent's MCP servers. Of two of one name the first of these is meant. An agent that cannot run,
 * or a server that is away, only leaves its own out.
 */
export class Prompts extends Context.Service<
  Prompts,
  {
    readonly list: (workspace: OrganizationId) => Effect.Effect<ReadonlyArray<Prompt>>
    readonly find: (workspace: OrganizationId, name: string) => Effect.Effect<Prompt, PromptNotFound>
    /** `context` is what the user adds in their own words, or empty. */
    readonly resolve: (
      workspace: OrganizationId,
      name: string,
      values: ArgumentValues,
      context: string
    ) => Effect.Effect<ResolvedPrompt, PromptNotFound | MissingArguments | McpFailed>
    readonly create: (workspace: OrganizationId, prompt: NewPrompt) => Effect.Effect<Prompt, PromptExists>
    readonly remove: (workspace: OrganizationId, name: string) => Effect.Effect<void, PromptNotFound | PromptNotCustom>
  }
>()("gateway/prompt/Prompts") {
  static readonly layer = Layer.effect(
    Prompts,
    Effect.gen(function* () {
      const custom = yield* CustomPrompts
      const agents = yield* RunningAgents
      const blobs = yield* Blobs
      const ids = yield* Ids

      const agentOf = (workspace: OrganizationId): Effect.Effect<Option.Option<RunningAgent>> =>
        agents.of(workspace).pipe(
          Effect.map(Option.some),
          Effect.catch(({ message }) =>
            Effect.as(Effect.logWarning(`The prompts of the agent are left out: ${message}`), Option.none())
          )
        )

      /** What is not the user's own. */
      const others = Effect.fnUntraced(function* (workspace: OrganizationId) {
        const agent = yield* agentOf(workspace)
        if (Option.isNone(agent)) return { texts: builtinPrompts, offered: [] }
        return {
          texts: [...builtinPrompts, ...agent.value.config.starterPrompts.map(starterOf)],
          offered: yield* offeredPrompts(agent.value)
        }
      })

      const otherOf = (workspace: OrganizationId, name: string): Effect.Effect<Option.Option<Found>> => {
        const packaged = builtinPrompts.find(({ prompt }) => prompt.name === name)
        if (packaged !== undefined) return Effect.succeedSome({ _tag: "Text", ...packaged })
        return Effect.map(others(workspace), ({ offered, texts }) => {
          const text = texts.find(({ prompt }) => prompt.name === name)
          if (text !== undefined) return Option.some({ _tag: "Text", ...text })
          const mcp = offered.find(({ prompt }) => prompt.name === name)
          return mcp === undefined ? Option.none() : Option.some({ _tag: "Offered", ...mcp })
        })
      }

      const found = Effect.fnUntraced(function* (workspace: OrganizationId, name: string) {
        const own = isPromptName(name) ? yield* custom.find(workspace, name) : Option.none()
        if (Option.isSome(own)) return textFound(own.value)
        const other = yield* otherOf(workspace, name)
        return Option.isSome(other) ? other.value : yield* new PromptNotFound({ name })
      })

      const list = Effect.fn("Prompts.list")(function* (workspace: OrganizationId) {
        const { offered, texts } = yield* others(workspace)
        const all = [...(yield* custom.list(workspace)), ...texts.map(promptIn), ...offered.map(promptIn)]
        const byName = new Map<string, Prompt>()
        for (const prompt of all) if (!byName.has(prompt.name)) byName.set(prompt.name, prompt)
        return [...byName.values()]
      })

      const resolve = Effect.fn("Prompts.resolve")(function* (
        workspace: OrganizationId,
        name: string,
        values: ArgumentValues,
        context: string
      ) {
        const target = yield* found(workspace, name)
        yield* Effect.fromResult(complete(target.prompt, values))
        if (target._tag === "Text") {
          const { prompt, resource, text } = target
          return {
            text: resolved(text, prompt.arguments, values, context),
            resources: resource === undefined ? [] : [blobUri(resource)]
          }
        }
        const answer = yield* target.connection.getPrompt(target.nameThere, Object.fromEntries(values))
        return {
          text: withParagraph(answer.text, context),
          resources: answer.resources.map((uri) => mcpUri(target.server, uri))
        }
      })

      const create = Effect.fn("Prompts.create")(function* (workspace: OrganizationId, given: NewPrompt) {
        const { name, resource } = given
        const taken = new PromptExists({ name })
        if (Option.isSome(yield* custom.find(workspace, name))) return yield* taken
        if (Option.isSome(yield* otherOf(workspace, name))) return yield* taken
        const id = yield* ids.next
        const prompt = promptOf(given)
        // The blob first, so that no prompt ever names one that is not there.
        const storing = Effect.gen(function* () {
          const blob =
            resource === undefined ? undefined : yield* blobs.put(workspace, ownerOf(id), contentOf(resource))
          const isStored = yield* custom.insert(workspace, { id, prompt, text: given.content, resource: blob?.id })
          if (!isStored) return yield* taken
        })
        const undone = Effect.flatMap(custom.find(workspace, name), (stored) =>
          // A store can have it, and have been away before it said so.
          Option.exists(stored, (one) => one.id === id) ? Effect.void : blobs.release(workspace, ownerOf(id))
        )
        // Nobody knows how far it was when its caller left.
        yield* Effect.uninterruptible(resource === undefined ? storing : Effect.onError(storing, () => undone))
        return prompt
      })

      const remove = Effect.fn("Prompts.remove")(function* (workspace: OrganizationId, name: string) {
        const removed = isPromptName(name) ? yield* custom.remove(workspace, name) : Option.none()
        if (Option.isSome(removed)) return yield* blobs.release(workspace, ownerOf(removed.value))
        const other = yield* otherOf(workspace, name)
        if (Option.isNone(other)) return yield* new PromptNotFound({ name })
        const { source } = other.value.prompt
        return yield* source === "custom" ? new PromptNotFound({ name }) : new PromptNotCustom({ name, source })
      })

      return Prompts.of({
        list,
        find: Effect.fn("Prompts.find")((workspace, name) => Effect.map(found(workspace, name), promptIn)),
        resolve,
        create,
        remove
      })
    })
  )
}

/** What no custom prompt can be called the store is not asked for: others may have such names. */
const isPromptName = Schema.is(PromptName)

type Found = ({ readonly _tag: "Text" } & PromptText) | ({ readonly _tag: "Offered" } & OfferedPrompt)

const textFound = ({ prompt, resource, text }: PromptText): Found => ({ _tag: "Text", prompt, text, resource })

const promptIn = ({ prompt }: { readonly prompt: Prompt }): Prompt => prompt

/** What refers to a prompt's blob. */
const ownerOf = (id: string): string => `prompt:${id}`

const contentOf = ({ base64, filename, mimeType }: NonNullable<NewPrompt["resource"]>) => ({
  bytes: base64,
  mimeType,
  ...(filename === undefined ? {} : { filename })
})

/** What an agent's configuration suggests to begin with, as a prompt. */
const starterOf = ({ description = "", id, prompt, title }: AgentConfig["starterPrompts"][number]): PromptText => ({
  prompt: { name: id, ...(title === undefined ? {} : { title }), description, arguments: [], source: "starter" },
  text: prompt,
  resource: undefined
})
