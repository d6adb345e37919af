/** The media of messages (section 4.9), by their usual names, and the other names they go by. */
const aliases: ReadonlyMap<string, string> = new Map([
  ["image/jpg", "image/jpeg"],
  ["image/pjpeg", "image/jpeg"],
  ["image/x-png", "image/png"],
  ["application/x-pdf", "application/pdf"],
  ["audio/mpeg", "audio/mp3"],
  ["audio/mpeg3", "audio/mp3"],
  ["audio/x-mp3", "audio/mp3"],
  ["audio/x-wav", "audio/wav"],
  ["audio/wave", "audio/wav"],
  ["audio/vnd.wave", "audio/wav"]
])

export const imageTypes = ["image/png", "image/jpeg", "image/gif", "image/webp"]

export const fileTypes = ["application/pdf", "audio/mp3", "audio/wav"]

/** A type by its usual name, without parameters. */
export const usualType = (mimeType: string): string => {
  const [essence = ""] = mimeType.toLowerCase().split(";")
  return aliases.get(essence.trim()) ?? essence.trim()
}

/** What bytes are by how they begin, of the types above; undefined for anything else. */
export const typeOfBytes = (bytes: Uint8Array): string | undefined => {
  const has = (at: number, ...expected: ReadonlyArray<number>) =>
    expected.every((byte, index) => bytes[at + index] === byte)
  const says = (at: number, text: string) => has(at, ...Array.from(text, (letter) => letter.charCodeAt(0)))
  if (has(0, 0x89) && says(1, "PNG\r\n\u001a\n")) return "image/png"
  if (has(0, 0xff, 0xd8, 0xff)) return "image/jpeg"
  if (says(0, "GIF87a") || says(0, "GIF89a")) return "image/gif"
  if (says(0, "RIFF") && says(8, "WEBP")) return "image/webp"
  if (says(0, "RIFF") && says(8, "WAVE")) return "audio/wav"
  if (says(0, "%PDF-")) return "application/pdf"
  if (says(0, "ID3") || isMp3Frame(bytes)) return "audio/mp3"
  return undefined
}

/** The header of a frame of MPEG layer 3: eleven bits set, and no value that is reserved. */
const isMp3Frame = ([first = 0, second = 0, third = 0]: Uint8Array): boolean =>
  first === 0xff &&
  (second & 0xe0) === 0xe0 &&
  (second & 0x18) !== 0x08 &&
  (second & 0x06) === 0x02 &&
  (third & 0xf0) !== 0xf0 &&
  (third & 0x0c) !== 0x0c
