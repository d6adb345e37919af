/** What is in a resource: one part, or several if an MCP server answers so. */
export interface ResourceContent {
  readonly parts: ReadonlyArray<ResourcePart>
}

export type ResourcePart = TextPart | BinaryPart

interface Part {
  readonly uri: string
  readonly mimeType: string
  /** Bytes of the whole, of which a part may have less: see `mostRead`. */
  readonly size: number
  readonly isTruncated: boolean
}

export interface TextPart extends Part {
  readonly _tag: "Text"
  readonly text: string
}

export interface BinaryPart extends Part {
  readonly _tag: "Binary"
  readonly name: string
  readonly bytes: Uint8Array
}

/** The most bytes of a file that are read (decisions 8); of a longer one its beginning. */
export const mostRead = 10 * 1024 * 1024

/** A part of bytes: a text if they are one and their type, as far as it is known, does not say otherwise. */
export const partOfBytes = ({
  bytes,
  mimeType,
  name,
  size,
  uri
}: {
  readonly uri: string
  readonly name: string
  readonly mimeType: string | undefined
  readonly bytes: Uint8Array
  readonly size: number
}): ResourcePart => {
  const isTruncated = bytes.length < size
  const text = mimeType !== undefined && neverText.test(mimeType) ? undefined : textOf(bytes, isTruncated)
  return text === undefined
    ? { _tag: "Binary", uri, name, mimeType: mimeType ?? "application/octet-stream", size, isTruncated, bytes }
    : { _tag: "Text", uri, mimeType: mimeType ?? "text/plain", size, isTruncated, text }
}

/** Types that a tool reads as what they are, whatever their bytes look like: a PDF can consist of letters alone. */
const neverText =
  /^(?:(?:audio|font|image|video)\/(?!.*\+xml)|application\/(?:gzip|pdf|vnd\.openxmlformats|wasm|x-tar|zip))/i

/** Signs that no text has. */
// oxlint-disable-next-line no-control-regex
const unreadable = /[\0-\x06\x0e-\x1a\x1c-\x1f\x7f]/

/** Strictly UTF-8; a beginning may end within a sign, which is left out. */
const textOf = (bytes: Uint8Array, isBeginning: boolean): string | undefined => {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: isBeginning })
    return unreadable.test(text) ? undefined : text
  } catch {
    return undefined
  }
}

/** A content as a reader of text gets it (section 4.8): in place of binary data a line that names it. */
export interface ReadableContent {
  readonly contents: ReadonlyArray<{ readonly uri: string; readonly mimeType: string; readonly text: string }>
  readonly _meta: {
    /** Bytes. */
    readonly size: number
    readonly isBinary?: true
    readonly originalMimeType?: string
    /** The text is only the beginning. */
    readonly isTruncated?: true
  }
}

export const readable = ({ parts }: ResourceContent): ReadableContent => {
  const binary = parts.find(({ _tag }) => _tag === "Binary")
  return {
    contents: parts.map((part) => ({
      uri: part.uri,
      mimeType: part._tag === "Text" ? part.mimeType : "text/plain",
      text: part._tag === "Text" ? part.text : `[Binary file: ${part.name} (${part.size} bytes)]`
    })),
    _meta: {
      size: parts.reduce((sum, { size }) => sum + size, 0),
      ...(binary === undefined ? {} : { isBinary: true, originalMimeType: binary.mimeType }),
      ...(parts.some(({ _tag, isTruncated }) => _tag === "Text" && isTruncated) ? { isTruncated: true } : {})
    }
  }
}
