import { Effect, FileSystem, Schema } from "effect"
import { fileURLToPath } from "node:url"
import { CatalogId, ModelFields } from "./ModelFields.ts"

export const PackagedModel = Schema.Struct({ id: CatalogId, ...ModelFields.fields })
export type PackagedModel = typeof PackagedModel.Type

/** A file under `data/`: one provider's models, written by `Refresh.ts`, never by hand. */
export const PackagedFile = Schema.Struct({
  dataset: Schema.Struct({ name: Schema.String, version: Schema.String, licence: Schema.String }),
  provider: Schema.String,
  models: Schema.NonEmptyArray(PackagedModel)
})
export type PackagedFile = typeof PackagedFile.Type

export const dataFolder = fileURLToPath(new URL("data/", import.meta.url))

const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(PackagedFile), { onExcessProperty: "error" })

/** The packaged models of a provider of the data set. A provider that is not packaged is a defect. */
export const load = Effect.fn("PackagedModels.load")(function* (provider: string) {
  const files = yield* FileSystem.FileSystem
  return yield* decode(yield* files.readFileString(`${dataFolder}${provider}.json`))
}, Effect.orDie)
