/** What a model takes. */
export interface ModelCapabilities {
  /** Modalities beside text. */
  readonly takes: ReadonlySet<"image" | "file" | "audio">
  readonly tools: boolean
  readonly maxInputTokens: number | undefined
}
