import { Array, Context, Effect, Layer, Option, Redacted } from "effect"
import { AgentFileInvalid, AgentNotStarted } from "../../domain/agent/AgentErrors.ts"
import { changedKeys, needsRestart } from "../../domain/agent/ConfigDiff.ts"
import type { ConfigError, ConfigWarning } from "../../domain/agent/ConfigIssue.ts"
import { redactConfig, redactionMark } from "../../domain/agent/ConfigRedaction.ts"
import { documentOf } from "../../domain/agent/EffectiveConfig.ts"
import type { SessionId } from "../../domain/conversation/Session.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { WorkspaceConflict } from "../../domain/workspace/WorkspaceErrors.ts"
import { EffectiveLlm } from "../llm/EffectiveLlm.ts"
import { AgentYaml, type YamlEdit } from "../ports/files/AgentYaml.ts"
import { WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"
import { AgentBackups } from "./AgentBackups.ts"
import { type AgentFile, CurrentAgent, type NoCurrentAgent } from "./CurrentAgent.ts"
import { Environment } from "./Environment.ts"
import { RunningAgents } from "./RunningAgents.ts"

/** Where the current agent's configuration is (section 2.5). */
export interface ConfigPath {
  /** Absolute. */
  readonly path: string
  /** Below the workspace. */
  readonly relativePath: string
  /** The file's, without its ending. */
  readonly name: string
  readonly isDefault: boolean
}

/** The file as it is written, its variables not expanded. */
export interface ConfigRecord extends Pick<ConfigPath, "path" | "relativePath"> {
  readonly yaml: string
  /** Epoch milliseconds. */
  readonly lastModified: number
  readonly warnings: ReadonlyArray<ConfigWarning>
}

export interface ConfigVerdict {
  readonly valid: boolean
  readonly errors: ReadonlyArray<ConfigError>
  readonly warnings: ReadonlyArray<ConfigWarning>
}

export interface ConfigSaved {
  readonly path: string
  /** Whether the running agent follows another configuration now. */
  readonly reloaded: boolean
  /** Whether it had to be started anew for that. */
  readonly restarted: boolean
  /** The top-level keys whose values changed. */
  readonly changesApplied: ReadonlyArray<string>
}

/** What a save can fail with; nothing was changed then. */
export type SaveFailure = NoCurrentAgent | AgentFileInvalid | AgentNotStarted | WorkspaceConflict

/** The configuration of a workspace's current agent (section 4.2). */
export class AgentConfigs extends Context.Service<
  AgentConfigs,
  {
    readonly path: (workspace: OrganizationId) => Effect.Effect<ConfigPath, NoCurrentAgent>
    readonly config: (workspace: OrganizationId) => Effect.Effect<ConfigRecord, NoCurrentAgent>
    /** Judges a text by the workspace's variables. Nothing is written. */
    readonly validate: (workspace: OrganizationId, yaml: string) => Effect.Effect<ConfigVerdict>
    /** Replaces the file; the one before is kept as a backup, and put back if the agent cannot start with the new one. */
    readonly save: (workspace: OrganizationId, yaml: string) => Effect.Effect<ConfigSaved, SaveFailure>
    /**
     * Changes single values of the file in the same way. Its comments and its order stay. Edits that follow from what
     * stands in it are based on that version, and conflict with any other.
     */
    readonly edit: (
      workspace: OrganizationId,
      edits: ReadonlyArray<YamlEdit>,
      basedOn?: string
    ) => Effect.Effect<ConfigSaved, SaveFailure>
    /**
     * What is in force, as YAML: variables resolved, defaults in place, secrets replaced by a mark; for a session with
     * its own choice of a model.
     */
    readonly export: (
      workspace: OrganizationId,
      session: SessionId | undefined
    ) => Effect.Effect<string, NoCurrentAgent | AgentFileInvalid>
  }
>()("gateway/agent/AgentConfigs") {
  static readonly layer = Layer.effect(
    AgentConfigs,
    Effect.gen(function* () {
      const files = yield* WorkspaceFiles
      const current = yield* CurrentAgent
      const backups = yield* AgentBackups
      const environment = yield* Environment
      const running = yield* RunningAgents
      const effectiveLlm = yield* EffectiveLlm
      const yaml = yield* AgentYaml

      const fileOf = (workspace: OrganizationId) => Effect.andThen(backups.recover(workspace), current.file(workspace))

      const variablesOf = (workspace: OrganizationId) =>
        Effect.map(
          environment.variables(workspace),
          (variables) => new Map([...variables].map(([name, value]) => [name, Redacted.value(value)]))
        )

      const absolute = (workspace: OrganizationId, { path }: AgentFile) =>
        Effect.map(files.root(workspace), (root) => `${root}/${path}`)

      const path = Effect.fn("AgentConfigs.path")(function* (workspace: OrganizationId) {
        const file = yield* fileOf(workspace)
        return {
          path: yield* absolute(workspace, file),
          relativePath: file.path,
          name: nameOf(file),
          isDefault: file.isDefault
        }
      })

      const config = Effect.fn("AgentConfigs.config")(function* (workspace: OrganizationId) {
        const file = yield* fileOf(workspace)
        const { warnings } = yaml.read(file.text, yield* variablesOf(workspace))
        return {
          yaml: file.text,
          path: yield* absolute(workspace, file),
          relativePath: file.path,
          lastModified: file.lastModified,
          warnings
        }
      })

      const validate = Effect.fn("AgentConfigs.validate")(function* (workspace: OrganizationId, text: string) {
        const { errors, valid, warnings } = yaml.read(text, yield* variablesOf(workspace))
        return { valid: valid !== undefined, errors, warnings }
      })

      /** What a text means, if it has no mistakes. */
      const sound = (file: AgentFile, text: string, variables: ReadonlyMap<string, string>) => {
        const { errors, valid } = yaml.read(text, variables)
        if (valid !== undefined) return Effect.succeed(valid)
        return Array.isReadonlyArrayNonEmpty(errors)
          ? Effect.fail(new AgentFileInvalid({ file: file.path, errors }))
          : Effect.die(new Error(`${file.path} has no errors and is not valid`))
      }

      /** Puts back what was there before, unless somebody has saved something else since. */
      const undo = Effect.fnUntraced(
        function* (workspace: OrganizationId, file: AgentFile, written: Uint8Array, before: Uint8Array) {
          const now = yield* files.read(workspace, file.path)
          if (Option.isNone(now) || !isSame(now.value.content, written)) return
          yield* files.commit(workspace, [{ path: file.path, content: before, basedOn: now.value.version }])
          yield* running.reload(workspace)
        },
        Effect.catch((error) => Effect.logWarning(`The configuration before is not in force again: ${error.message}`))
      )

      const replace = Effect.fnUntraced(function* (workspace: OrganizationId, file: AgentFile, text: string) {
        const variables = yield* variablesOf(workspace)
        const { config: after } = yield* sound(file, text, variables)
        const path = yield* absolute(workspace, file)
        if (text === file.text) return { path, reloaded: false, restarted: false, changesApplied: [] }
        const changes = changedKeys(yaml.parse(file.text), yaml.parse(text))
        const before = yield* files.read(workspace, file.path)
        if (Option.isNone(before) || before.value.version !== file.version) {
          return yield* new WorkspaceConflict({ path: file.path })
        }
        const content = new TextEncoder().encode(text)
        yield* files.commit(workspace, [
          ...(yield* backups.keeping(workspace, file.id, before.value.content)),
          { path: file.path, content, basedOn: file.version }
        ])
        const reload = yield* Effect.result(running.reload(workspace))
        if (reload._tag === "Failure") {
          yield* undo(workspace, file, content, before.value.content)
          return yield* new AgentNotStarted({ id: file.id, reason: reload.failure.message })
        }
        // The agent may have noticed the new file by itself: then there was nothing left to reload.
        const old = yaml.read(file.text, variables).valid?.config
        const inForce = old === undefined ? changes : changedKeys(documentOf(old), documentOf(after))
        const noticed = reload.success.changes.length === 0 && needsRestart(inForce)
        return {
          path,
          reloaded: changes.length > 0 || reload.success.changes.length > 0,
          restarted: reload.success.restarted || noticed,
          changesApplied: changes
        }
        // A caller that leaves must not leave a file behind that the agent cannot start with.
      }, Effect.uninterruptible)

      const save = Effect.fn("AgentConfigs.save")(function* (workspace: OrganizationId, text: string) {
        return yield* replace(workspace, yield* fileOf(workspace), text)
      })

      const edit = Effect.fn("AgentConfigs.edit")(function* (
        workspace: OrganizationId,
        edits: ReadonlyArray<YamlEdit>,
        basedOn?: string
      ) {
        const file = yield* fileOf(workspace)
        if (basedOn !== undefined && basedOn !== file.version) {
          return yield* new WorkspaceConflict({ path: file.path })
        }
        yield* sound(file, file.text, yield* variablesOf(workspace))
        return yield* replace(workspace, file, yaml.edit(file.text, edits))
      })

      const exported = Effect.fn("AgentConfigs.export")(function* (
        workspace: OrganizationId,
        session: SessionId | undefined
      ) {
        const file = yield* fileOf(workspace)
        const variables = yield* variablesOf(workspace)
        const { config: actual } = yield* sound(file, file.text, variables)
        const llm = yield* effectiveLlm.of(workspace, actual.llm, session)
        // Secrets are not even expanded, so that none is found by what it looks like only.
        const shown = new Map([...variables].map(([name, value]) => [name, isAddress(name) ? value : maskOf(value)]))
        const { config: masked } = yield* sound(file, file.text, shown)
        const secrets = [...variables].flatMap(([name, value]) => (isAddress(name) ? [] : [value]))
        return yaml.write(redactConfig(documentOf({ ...masked, llm }), secrets))
      })

      return AgentConfigs.of({ path, config, validate, save, edit, export: exported })
    })
  )
}

const nameOf = ({ path }: AgentFile): string => (path.split("/").at(-1) ?? path).replace(/\.ya?ml$/, "")

/** Of the variables that `.env` takes, those that are no secret. */
const isAddress = (name: string): boolean => name.endsWith("_BASE_URL")

const maskOf = (value: string): string => (value === "" ? "" : redactionMark)

const isSame = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && a.every((byte, at) => byte === b[at])
