import { Effect, FileSystem, Layer, Schema } from "effect"
import { fileURLToPath } from "node:url"
import { type PackagedAgent, PackagedAgents } from "../../application/ports/files/PackagedAgents.ts"
import { type CatalogEntry, isService, ModelCatalog } from "../../application/ports/vendor/ModelCatalog.ts"
import { Providers } from "../../application/ports/vendor/Providers.ts"
import { Agent } from "../../domain/agent/Agent.ts"

/** The file that lists the packaged agents, the one of new workspaces first. Each has a directory beside it. */
export const PackagedRegistry = Schema.Struct({
  agents: Schema.NonEmptyArray(
    Schema.Struct({
      id: Agent.fields.id,
      name: Agent.fields.name,
      description: Agent.fields.description,
      author: Agent.fields.author,
      tags: Agent.fields.tags,
      main: Schema.NonEmptyString
    })
  )
})

export const packagedFolder = fileURLToPath(new URL("packaged/", import.meta.url))

/**
 * The agents beside this file. They run on this gateway itself, so that they need no key of anybody; which of its models
 * they name depends on what this deployment serves.
 */
export const layer = Layer.effect(
  PackagedAgents,
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const { entries } = yield* ModelCatalog
    const { vendors } = yield* Providers
    const preferred = vendors.flatMap(({ models }) =>
      models.filter(({ isDefault }) => isDefault).map(({ name }) => name)
    )
    const model = modelFor(entries, preferred)

    const { agents } = yield* decode(yield* files.readFileString(`${packagedFolder}registry.json`))
    const list = yield* Effect.forEach(
      agents,
      Effect.fnUntraced(function* ({ main, ...agent }) {
        const folder = `${packagedFolder}${agent.id}/`
        const contents = new Map<string, Uint8Array>()
        for (const name of (yield* files.readDirectory(folder, { recursive: true })).toSorted()) {
          if ((yield* files.stat(folder + name)).type === "File")
            contents.set(name, yield* files.readFile(folder + name))
        }
        if (model !== echo) {
          const text = yield* files.readFileString(folder + main)
          contents.set(
            main,
            new TextEncoder().encode(text.replace(packagedModel, () => `  model: ${JSON.stringify(model)}`))
          )
        }
        return { agent: { ...agent, type: "builtin" }, main, files: contents } satisfies PackagedAgent
      })
    )
    return PackagedAgents.of({ list: Effect.succeed(list) })
    // Part of the program itself: without it nothing can be done.
  }).pipe(Effect.orDie)
)

const decode = Schema.decodeEffect(Schema.fromJsonString(PackagedRegistry), { onExcessProperty: "error" })

/** What needs no network, and what the packaged files name therefore. */
const echo = "echo"

const packagedModel = /^ {2}model: echo$/m

/**
 * Of the models that this deployment serves: a provider's own default, else any that can use tools, else what there is.
 * `preferred` are names at their providers, which may have a prefix here.
 */
const modelFor = (entries: ReadonlyArray<CatalogEntry>, preferred: ReadonlyArray<string>): string => {
  const able = entries
    .filter(({ model, routes }) => model.id !== echo && model.supportsToolCall && routes.some(isService))
    .map(({ model }) => model.id)
  const favourite = preferred
    .map((name) => able.find((id) => id === name || id.endsWith(`/${name}`)))
    .find((id) => id !== undefined)
  return favourite ?? able[0] ?? echo
}
