import { Context, type Effect, type Option } from "effect"
import type { FileRules } from "../../../domain/resource/FileRules.ts"

/**
 * Files of this machine as resources (decisions 8): whatever lies, after resolving links, in a directory of
 * `AGENT_SOURCE_ROOTS`, and never the service's own data. Below the root that an agent names no link is followed.
 * Hidden files, links and special files are as if they were not there, and so is a root that is not allowed.
 */
export class HostFiles extends Context.Service<
  HostFiles,
  {
    /** What the rules allow below a directory, or of a single file; in the order of names. */
    readonly list: (root: string, rules: FileRules) => Effect.Effect<ReadonlyArray<HostFile>>
    /** The first `most` bytes of a file below a root; "" is the root itself, if that is a file. */
    readonly read: (root: string, path: string, most: number) => Effect.Effect<Option.Option<HostFileContent>>
  }
>()("gateway/ports/files/HostFiles") {}

export interface HostFile {
  /** Below the root, "" for the root itself. */
  readonly path: string
  /** Bytes. */
  readonly size: number
  /** Epoch milliseconds. */
  readonly lastModified: number
}

export interface HostFileContent extends Omit<HostFile, "path"> {
  readonly bytes: Uint8Array
}
