/** The kinds of files that the vendor reads: its public guide on file inputs. Names' endings, and media types. */
const types: ReadonlyArray<readonly [string, string]> = [
  ["pdf", "application/pdf"],
  ["txt", "text/plain"],
  ["md", "text/markdown"],
  ["csv", "text/csv"],
  ["html", "text/html"],
  ["xml", "text/xml"],
  ["json", "application/json"],
  ["docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"],
  ["pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"],
  ["xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"]
]

/** The media type of base64 data that came without one: by its name, or as most are, a PDF by its first bytes. */
export const typeOf = (base64: string, filename: string | undefined): string => {
  const ending = filename?.toLowerCase().split(".").at(-1)
  const named = types.find(([known]) => known === ending)
  return named?.[1] ?? (base64.startsWith("JVBER") ? "application/pdf" : "application/octet-stream")
}

/** A name for data that came without one. */
export const nameOf = (dataUri: string): string => {
  const type = /^data:([^;,]*)/i.exec(dataUri)?.[1]?.toLowerCase()
  const known = types.find(([, known]) => known === type)
  return known === undefined ? "attachment" : `attachment.${known[0]}`
}
