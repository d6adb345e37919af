import { Context, type Effect, type Option, type Stream } from "effect"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"
import type { WorkspaceConflict } from "../../../domain/workspace/WorkspaceErrors.ts"
import type { WorkspacePath } from "../../../domain/workspace/WorkspacePath.ts"

/**
 * The files of workspaces (decisions 3): a directory on one machine, or versioned rows on a server, where `.env` is
 * encrypted. Whole files, read and written at once. A store that is away is the defect `StoreUnavailable`.
 */
export class WorkspaceFiles extends Context.Service<
  WorkspaceFiles,
  {
    /** The absolute path of the workspace, as callers are told it; on a server nothing of it is on any disk. */
    readonly root: (workspace: OrganizationId) => Effect.Effect<string>
    readonly read: (workspace: OrganizationId, path: WorkspacePath) => Effect.Effect<Option.Option<WorkspaceFile>>
    /** Every file below a directory, in the order of paths; "" is the workspace itself. Links are not followed. */
    readonly list: (
      workspace: OrganizationId,
      directory: WorkspacePath | ""
    ) => Effect.Effect<ReadonlyArray<Omit<WorkspaceFile, "content">>>
    /**
     * All of these changes or none, durable when it returns, whatever dies meanwhile. Each is based on a version of its
     * file: if any has another by now, all fail. Each path at most once. `.env` on a server without SECRETS_KEY is the
     * defect `SecretsUnavailable`; `Environment` makes a failure of it.
     */
    readonly commit: (
      workspace: OrganizationId,
      changes: ReadonlyArray<FileChange>
    ) => Effect.Effect<void, WorkspaceConflict>
    /**
     * Which workspaces changed, by this process or another, within a second. A hint to look again: it may come twice or
     * for nothing.
     */
    readonly changes: Stream.Stream<WorkspaceChange>
  }
>()("gateway/ports/files/WorkspaceFiles") {}

export interface WorkspaceFile {
  readonly path: WorkspacePath
  readonly content: Uint8Array
  /** Changes whenever the content does. */
  readonly version: string
  /** Epoch milliseconds. */
  readonly lastModified: number
}

export interface FileChange {
  readonly path: WorkspacePath
  /** Null removes the file. */
  readonly content: Uint8Array | null
  /** The version that the change is based on; null: there is no such file; undefined: whatever is there. */
  readonly basedOn: string | null | undefined
}

export interface WorkspaceChange {
  readonly workspace: OrganizationId
  /** Empty when it is not known which. */
  readonly paths: ReadonlyArray<WorkspacePath>
}
