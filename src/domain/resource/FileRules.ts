/** Which files below a root an agent may see (decisions 4 and 8). */
export interface FileRules {
  /** How many names a file's path below the root may have: with 1, only files of the root itself. */
  readonly maxDepth: number
  /** How many files are listed. */
  readonly maxFiles: number
  /** With or without the dot; undefined: whatever the extension. */
  readonly includeExtensions: ReadonlyArray<string> | undefined
}

/**
 * Whether a path below a root may be seen; "" is the root itself, if that is a file. Hidden files never: neither their
 * own names nor those of directories above them begin with a dot.
 */
export const allows = ({ includeExtensions, maxDepth }: FileRules, root: string, path: string): boolean => {
  const names = path === "" ? [] : path.split("/")
  const name = names.at(-1) ?? root.slice(root.lastIndexOf("/") + 1)
  return (
    names.length <= maxDepth &&
    !isHidden(path) &&
    (includeExtensions === undefined || includeExtensions.some((extension) => endsWith(name, extension)))
  )
}

/** Whether a name of a path begins with a dot. */
export const isHidden = (path: string): boolean => /(?:^|\/)\./.test(path)

const endsWith = (name: string, extension: string): boolean =>
  name.toLowerCase().endsWith(extension.startsWith(".") ? extension.toLowerCase() : `.${extension.toLowerCase()}`)

/**
 * An absolute path without `.`, `..`, empty names and a slash at its end, from one that may be relative to a directory.
 * What would lead above the topmost directory leads to it.
 */
export const absolutePath = (directory: string, path: string): string => {
  const names: Array<string> = []
  for (const name of (path.startsWith("/") ? path : `${directory}/${path}`).split("/")) {
    if (name === "..") names.pop()
    else if (name !== "" && name !== ".") names.push(name)
  }
  return `/${names.join("/")}`
}

/** The path below a directory: "" for itself, undefined outside. */
export const pathBelow = (directory: string, path: string): string | undefined => {
  if (path === directory) return ""
  const start = directory.endsWith("/") ? directory : `${directory}/`
  return path.startsWith(start) ? path.slice(start.length) : undefined
}

/** The absolute path of a path below a directory. */
export const joinedPath = (directory: string, path: string): string =>
  path === "" ? directory : `${directory === "/" ? "" : directory}/${path}`
