import { Effect, Layer } from "effect"
import * as AgentYamlLive from "../../../src/adapters/yaml/AgentYamlLive.ts"
import { AgentYaml } from "../../../src/application/ports/files/AgentYaml.ts"
import { KnownModels } from "../../../src/application/ports/vendor/KnownModels.ts"

/** Two providers with models, one that takes any and one that needs no key. */
export const knownModels = Layer.succeed(KnownModels, {
  providers: new Map([
    ["openai", { keyVariable: "OPENAI_API_KEY", models: new Map([["gpt-5-mini", { maxInputTokens: 1_000 }]]) }],
    ["anthropic", { keyVariable: "ANTHROPIC_API_KEY", models: new Map([["claude", { maxInputTokens: undefined }]]) }],
    ["openai-compatible", { keyVariable: "OPENAI_COMPATIBLE_API_KEY", models: undefined }],
    ["service", { keyVariable: undefined, models: undefined }]
  ])
})

export const agentYaml = Layer.provide(AgentYamlLive.layer, knownModels)

/** The port as the adapter implements it: it is pure, so tests need no effects. */
export const yaml: AgentYaml["Service"] = Effect.runSync(Effect.provide(AgentYaml, agentYaml))

/** The least that is a configuration. */
export const least = "systemPrompt: Help.\nllm:\n  provider: service\n  model: echo\n"
