import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import { stringify } from "yaml"

/** What one token of every priced model costs in tests, as `fake-model`: USD per million. */
const pricing = { input: 2.5, output: 10, cache_read: 1.25 }

export interface ModelOptions {
  readonly id: string
  readonly baseUrl: string
  /** Costs nothing. */
  readonly free?: boolean
  /** The models whose upstreams stand in for its own. */
  readonly fallbacks?: ReadonlyArray<string>
}

/** The variable with the key of every upstream of the file. */
export const keyVariable = "FAKE_UPSTREAM_KEY"

/** A `MODELS_FILE`, each model on an upstream of its own name. It is deleted after the tests of the file. */
export const writeModels = async (models: ReadonlyArray<ModelOptions>): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), "gateway-models-"))
  afterAll(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, "models.yml")
  const content = {
    upstreams: Object.fromEntries(models.map(({ baseUrl, id }) => [id, { base_url: baseUrl, api_key: keyVariable }])),
    models: models.map(({ fallbacks = [], free = false, id }) => ({
      id,
      upstream: id,
      upstream_model: "gpt-fake",
      fallbacks: fallbacks.map((upstream) => ({ upstream, upstream_model: "gpt-fake" })),
      max_input_tokens: 128_000,
      max_output_tokens: 16_384,
      pricing: free ? { input: 0, output: 0 } : pricing
    }))
  }
  await writeFile(file, stringify(content))
  return file
}
