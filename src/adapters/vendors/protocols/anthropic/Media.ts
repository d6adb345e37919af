import { Result } from "effect"

/** Bytes or an address, as a part of a message gives them. */
export interface Medium {
  /** An address, a data URI, or base64. */
  readonly data: string
  /** What base64 is, or what is behind an address, where the part says so. */
  readonly mediaType: string | undefined
  readonly name?: string | undefined
}

const imageTypes = new Set(["image/gif", "image/jpeg", "image/png", "image/webp"])

const textTypes = /^(?:text\/|application\/(?:json|xml|yaml)$)/

/** An image block, or what the vendor takes instead. */
export const image = ({ data, mediaType }: Medium): Result.Result<object, string> => {
  if (isAddress(data)) return imageBlock({ type: "url", url: data })
  const bytes = bytesOf(data, mediaType)
  if (bytes === undefined) return Result.fail("Expected an https address or a base64 data URI")
  return imageTypes.has(bytes.type)
    ? imageBlock({ type: "base64", media_type: bytes.type, data: bytes.base64 })
    : Result.fail(`Expected a GIF, JPEG, PNG or WebP image, not ${bytes.type === "" ? "an unknown type" : bytes.type}`)
}

/** A document block: a PDF, or text. */
export const document = ({ data, mediaType, name }: Medium): Result.Result<object, string> => {
  if (isAddress(data)) return documentBlock({ type: "url", url: data }, name)
  const bytes = bytesOf(data, mediaType)
  if (bytes === undefined) return Result.fail("Expected an https address, a data URI or base64")
  const isPdf = bytes.type === "" ? bytes.base64.startsWith(pdfBegin) : bytes.type === "application/pdf"
  if (isPdf) return documentBlock({ type: "base64", media_type: "application/pdf", data: bytes.base64 }, name)
  const text = bytes.type === "" || textTypes.test(bytes.type) ? textOf(bytes.base64) : undefined
  return text === undefined
    ? Result.fail(`Expected a PDF or a text in UTF-8${bytes.type === "" ? "" : `, not ${bytes.type}`}`)
    : documentBlock({ type: "text", media_type: "text/plain", data: text }, name)
}

/** Whatever of both a tool answered. */
export const attachment = (medium: Medium): Result.Result<object, string> => {
  const type = isAddress(medium.data) ? medium.mediaType : bytesOf(medium.data, medium.mediaType)?.type
  return type?.startsWith("image/") === true ? image(medium) : document(medium)
}

const imageBlock = (source: object) => Result.succeed({ type: "image", source })

const documentBlock = (source: object, name: string | undefined) =>
  Result.succeed({ type: "document", source, ...(name === undefined || name === "" ? {} : { title: name }) })

/** The vendor fetches what is behind https itself; it takes no other scheme. */
const isAddress = (data: string): boolean => /^https:\/\//i.test(data)

/** `%PDF-` in base64. */
const pdfBegin = "JVBERi"

interface Bytes {
  /** In lower case; "" where nobody said. */
  readonly type: string
  readonly base64: string
}

const bytesOf = (data: string, mediaType: string | undefined): Bytes | undefined => {
  if (/^data:/i.test(data)) return bytesOfUri(data)
  return /^[a-z][a-z0-9+.-]*:/i.test(data) ? undefined : { type: normal(mediaType ?? ""), base64: standard(data) }
}

const bytesOfUri = (uri: string): Bytes | undefined => {
  const comma = uri.indexOf(",")
  if (comma === -1) return undefined
  const [type = "", ...parameters] = uri.slice("data:".length, comma).split(";")
  const body = decodePercents(uri.slice(comma + 1))
  if (body === undefined) return undefined
  const isBase64 = parameters.some((parameter) => parameter.trim().toLowerCase() === "base64")
  return {
    type: type === "" ? "text/plain" : normal(type),
    base64: isBase64 ? standard(body) : Buffer.from(body).toString("base64")
  }
}

const normal = (type: string): string => {
  const [essence = ""] = type.toLowerCase().split(";")
  return essence.trim() === "image/jpg" ? "image/jpeg" : essence.trim()
}

/** The vendor takes only the standard alphabet, not the one of addresses. */
const standard = (base64: string): string => base64.replaceAll("-", "+").replaceAll("_", "/")

const decodePercents = (text: string): string | undefined => {
  if (!text.includes("%")) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true })

const textOf = (base64: string): string | undefined => {
  try {
    return utf8.decode(Buffer.from(base64, "base64"))
  } catch {
    return undefined
  }
}
