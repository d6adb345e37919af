import { Context, type Effect, Schema } from "effect"

/** Nothing there that a caller may read; says neither whether it exists. */
export class SourceNotFound extends Schema.TaggedError<SourceNotFound>()("SourceNotFound", { path: Schema.String }) {
  override get message() {
    return `${this.path} is no file or directory in the workspace or in a directory of AGENT_SOURCE_ROOTS.`
  }
}

/** More than an agent may have. */
export class SourceTooLarge extends Schema.TaggedError<SourceTooLarge>()("SourceTooLarge", { limit: Schema.String }) {
  override get message() {
    return `The source of an agent has at most ${this.limit}.`
  }
}

/**
 * Files of this machine that a caller names by an absolute path: only what lies, after resolving links, in a directory
 * of `AGENT_SOURCE_ROOTS` (decisions 3). Hidden files, `.env*`, links and special files are passed over.
 */
export class AgentSources extends Context.Service<
  AgentSources,
  {
    /** One file, or every file below a directory; by their paths below it, a single file by its name. */
    readonly read: (path: string) => Effect.Effect<AgentSource, SourceNotFound | SourceTooLarge>
  }
>()("gateway/ports/files/AgentSources") {}

export interface AgentSource {
  readonly isDirectory: boolean
  readonly files: ReadonlyMap<string, Uint8Array>
}

/** What an agent may have, wherever its files come from: so many files, of so many bytes each and together. */
export const sourceLimits = { files: 200, fileBytes: 1024 * 1024, bytes: 8 * 1024 * 1024 }
