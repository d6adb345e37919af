/**
 * The type of a file by the end of its name; undefined if that says nothing. What agents work with: standard tables say
 * `video/mp2t` of TypeScript.
 */
export const mimeTypeOf = (name: string): string | undefined => {
  const dot = name.lastIndexOf(".")
  return dot === -1 ? undefined : types.get(name.slice(dot + 1).toLowerCase())
}

const types: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "application/gzip": "gz tgz",
    "application/json": "json map",
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/sql": "sql",
    "application/toml": "toml",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/wasm": "wasm",
    "application/x-ndjson": "jsonl ndjson",
    "application/x-sh": "bash sh zsh",
    "application/x-tar": "tar",
    "application/xml": "xml xsd xsl",
    "application/yaml": "yaml yml",
    "application/zip": "zip",
    "audio/flac": "flac",
    "audio/mpeg": "mp3",
    "audio/ogg": "oga ogg opus",
    "audio/wav": "wav",
    "font/woff": "woff",
    "font/woff2": "woff2",
    "image/avif": "avif",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/jpeg": "jpeg jpg",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/tiff": "tif tiff",
    "image/vnd.microsoft.icon": "ico",
    "image/webp": "webp",
    "text/css": "css",
    "text/csv": "csv",
    "text/html": "htm html",
    "text/javascript": "cjs js jsx mjs",
    "text/markdown": "markdown md mdx",
    "text/plain": "cfg conf ini log properties text txt",
    "text/tab-separated-values": "tsv",
    "text/typescript": "cts mts ts tsx",
    "text/x-c": "c cc cpp h hpp",
    "text/x-go": "go",
    "text/x-java": "java",
    "text/x-kotlin": "kt kts",
    "text/x-php": "php",
    "text/x-python": "py",
    "text/x-ruby": "rb",
    "text/x-rust": "rs",
    "text/x-swift": "swift",
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm"
  }).flatMap(([type, extensions]) => extensions.split(" ").map((extension): [string, string] => [extension, type]))
)
