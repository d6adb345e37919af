import type { ToolPart, UserPart } from "../../../../domain/completion/ChatMessage.ts"
import { nameOf, typeOf } from "./FileType.ts"
import type { Refuse } from "./Refuse.ts"

/** A part of a user's message. */
export const writeUserPart = (part: UserPart, path: string, refuse: Refuse): object => {
  switch (part.type) {
    case "text":
      return text(part.text)
    case "image_url":
      return image(part.image_url.url, `${path}.image_url.url`, refuse)
    case "file": {
      const { file_data, filename } = part.file
      if (isRemote(file_data) && filename !== undefined) {
        refuse(`${path}.file.filename`, "This model's provider takes no name beside the address of a file")
      }
      return isAddress(file_data)
        ? file(file_data, filename, `${path}.file.file_data`, refuse)
        : file(asUri(file_data, typeOf(file_data, filename)), filename, path, refuse)
    }
    case "input_audio":
      refuse(`${path}.input_audio`, noSound)
      return part
  }
}

/** A part of a tool's answer. */
export const writeToolPart = (part: ToolPart, path: string, refuse: Refuse): object => {
  switch (part.type) {
    case "text":
      return text(part.text)
    case "image_url":
      return image(part.image_url.url, `${path}.image_url.url`, refuse)
    case "image":
      return image(
        inlined(part.image, part.mimeType ?? "image/png", `${path}.mimeType`, refuse),
        `${path}.image`,
        refuse
      )
    case "media":
      return medium(part.data, part.mediaType, { data: `${path}.data`, type: `${path}.mediaType` }, refuse)
    case "file":
      return medium(part.data, part.mimeType, { data: `${path}.data`, type: `${path}.mimeType` }, refuse)
  }
}

const noSound = "This model's provider takes no sound and no moving pictures"

const text = (text: string): object => ({ type: "input_text", text })

const medium = (
  data: string,
  type: string,
  paths: { readonly data: string; readonly type: string },
  refuse: Refuse
): object => {
  const isMoving = /^(?:audio|video)\//i.test(type)
  if (isMoving) refuse(paths.type, noSound)
  const uri = isMoving ? asUri(data, type) : inlined(data, type, paths.type, refuse)
  return /^image\//i.test(type) ? image(uri, paths.data, refuse) : file(uri, undefined, paths.data, refuse)
}

const image = (uri: string, path: string, refuse: Refuse): object => {
  if (!isReadable(uri)) refuse(path, readable)
  return { type: "input_image", image_url: uri, detail: "auto" }
}

/** What is sent as data needs a name, whose ending tells the vendor what to make of it. */
const file = (uri: string, filename: string | undefined, path: string, refuse: Refuse): object => {
  if (!isReadable(uri)) refuse(path, readable)
  return isRemote(uri)
    ? { type: "input_file", file_url: uri }
    : { type: "input_file", filename: filename ?? nameOf(uri), file_data: uri }
}

const readable = "This model's provider takes only http, https and data addresses"

const isAddress = (data: string): boolean => /^[A-Za-z][A-Za-z0-9+.-]*:/.test(data)

const isRemote = (data: string): boolean => /^https?:/i.test(data)

const isReadable = (uri: string): boolean => /^(?:data|https?):/i.test(uri)

/** A comma in the type would end it, and the rest of it be read as data. */
const inlined = (data: string, type: string, path: string, refuse: Refuse): string => {
  if (!isAddress(data) && type.includes(",")) refuse(path, "Expected a media type")
  return asUri(data, type)
}

const asUri = (data: string, type: string): string => (isAddress(data) ? data : `data:${type};base64,${data}`)
