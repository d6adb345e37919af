import type { Llm } from "../../domain/llm/Llm.ts"
import type { ModelCapabilities } from "./ModelCapabilities.ts"

/** What beside text a model may be shown: what it takes, as far as the agent's `llm.allowedMediaTypes` lets it. */
export type ModelMedia = Pick<ModelCapabilities, "takes"> & Pick<Llm, "allowedMediaTypes">

/** Whether a model may be shown a file of this type. */
export const shows = ({ allowedMediaTypes, takes }: ModelMedia, mimeType: string): boolean =>
  takes.has(modalityOf(mimeType)) &&
  (allowedMediaTypes === undefined || allowedMediaTypes.some((allowed) => matches(allowed, mimeType)))

/** By which of its modalities a model takes a type. */
export const modalityOf = (mimeType: string): "image" | "file" | "audio" =>
  mimeType.startsWith("image/") ? "image" : mimeType.startsWith("audio/") ? "audio" : "file"

/** `image/png`, or all of a kind: `image/*`. */
const matches = (allowed: string, mimeType: string): boolean => {
  const wanted = allowed.trim().toLowerCase()
  return wanted === "*/*" || (wanted.endsWith("/*") ? mimeType.startsWith(wanted.slice(0, -1)) : mimeType === wanted)
}
