import { Schema } from "effect"
import type { Router } from "../agent/AgentConfig.ts"
import type { Modality } from "../catalog/Model.ts"

/** What a model reads beside text (section 2.11). */
export const FileType = Schema.Literals(["pdf", "audio", "image"])
export type FileType = typeof FileType.Type

/** Of a provider's models, which read files of a kind: all, those that see images, or none. */
export type Readers = "all" | "seeing" | "none"

/** A model provider as agents name it (decisions 5). */
export interface Provider {
  readonly id: string
  /** For people. */
  readonly name: string
  /** The variable of a workspace's `.env` with its key; undefined for this gateway itself. */
  readonly keyVariable: string | undefined
  /** Whether it serves nobody without a key. */
  readonly needsKey: boolean
  /** Preferred first. */
  readonly routers: readonly [Router, ...ReadonlyArray<Router>]
  /** Whether it is where the agent's `baseURL` says. The others have an address of their own. */
  readonly takesBaseURL: boolean
  /** The variable of `.env` that says for which address the key was stored, if not for the provider's own. */
  readonly baseUrlVariable: string | undefined
  /** Whether it serves models that are not listed here. */
  readonly takesAnyModel: boolean
  readonly reads: { readonly pdf: Readers; readonly audio: Readers }
  readonly models: ReadonlyArray<ProviderModel>
}

export interface ProviderModel {
  /** What agents write as `model`. */
  readonly name: string
  readonly displayName: string
  /** One of each provider that lists any. */
  readonly isDefault: boolean
  readonly maxInputTokens: number
  readonly maxOutputTokens: number
  readonly supportsToolCall: boolean
  readonly fileTypes: ReadonlyArray<FileType>
}

/** This gateway itself, with what the deployment serves. */
export const serviceProvider = "service"

/** Which files a model reads: what its modalities say, and what is true of its provider's models. */
export const fileTypesOf = (
  input: ReadonlyArray<Modality>,
  reads: Provider["reads"] | undefined
): ReadonlyArray<FileType> => {
  const seeing = input.includes("image")
  const among = (readers: Readers = "none") => readers === "all" || (readers === "seeing" && seeing)
  return [
    ...(input.includes("file") || among(reads?.pdf) ? (["pdf"] as const) : []),
    ...(input.includes("audio") || among(reads?.audio) ? (["audio"] as const) : []),
    ...(seeing ? (["image"] as const) : [])
  ]
}

/** How a model is shown; one that the provider does not list, by its own name. */
export const displayNameOf = (provider: Provider | undefined, model: string): string =>
  provider?.models.find(({ name }) => name === model)?.displayName ?? model
