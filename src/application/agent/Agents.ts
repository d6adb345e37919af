import { Array, Context, Effect, Exit, Layer, Option, Redacted, Schema } from "effect"
import { type Agent, AgentId } from "../../domain/agent/Agent.ts"
import { AgentFileInvalid, AgentNotStarted, AgentRefused, UnknownAgent } from "../../domain/agent/AgentErrors.ts"
import { nameOf } from "../../domain/agent/AgentName.ts"
import { type AgentRegistry, type InstalledAgent, registryPath } from "../../domain/agent/AgentRegistry.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import type { WorkspaceConflict } from "../../domain/workspace/WorkspaceErrors.ts"
import { WorkspacePath } from "../../domain/workspace/WorkspacePath.ts"
import type { SourceNotFound, SourceTooLarge } from "../ports/files/AgentSources.ts"
import { AgentYaml } from "../ports/files/AgentYaml.ts"
import { type PackagedAgent, PackagedAgents } from "../ports/files/PackagedAgents.ts"
import { type FileChange, WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"
import { SecretsUnavailable } from "../ports/runtime/Secrets.ts"
import { AllowedTools } from "../ports/storage/AllowedTools.ts"
import { KnownModels } from "../ports/vendor/KnownModels.ts"
import { AgentBackups } from "./AgentBackups.ts"
import { mainOf, makeSourceReader } from "./AgentImport.ts"
import { keyRefused, makeKeyPlacing } from "./AgentKeys.ts"
import { makePreferring } from "./AgentPreferences.ts"
import { CurrentAgent, encodeRegistry } from "./CurrentAgent.ts"
import { Environment } from "./Environment.ts"
import { RunningAgents } from "./RunningAgents.ts"

/** Of the registry that comes with the service if there is no `custom`, else the caller's own files. */
export interface AgentToInstall {
  readonly id: AgentId
  /** Whether `preferences.yml` says which model it uses. */
  readonly injectPreferences: boolean
  readonly custom?: {
    /** Undefined: derived from the id. */
    readonly name: string | undefined
    /** The absolute path of a configuration file, or of a directory that has one. */
    readonly sourcePath: string
    readonly description: string
    readonly author: string
    readonly tags: ReadonlyArray<string>
    /** The configuration file in the directory. */
    readonly main: string | undefined
  }
}

/** An agent from scratch. */
export interface AgentToCreate extends Omit<Agent, "type"> {
  readonly llm: {
    readonly provider: string
    readonly model: string
    /** A key, or the name of a variable that has it. */
    readonly apiKey: Redacted.Redacted | undefined
  }
  readonly systemPrompt: string
}

export interface CurrentEntry {
  readonly id: AgentId | null
  readonly name: string | null
}

/** Whether an id is free, and if not, of whom it is. */
export type NameVerdict =
  | { readonly valid: true }
  | { readonly valid: false; readonly conflict: "builtin" | "custom" | "invalid"; readonly message: string }

/** What can happen to anything that changes a workspace's agents. */
export type AgentFailure = AgentFileInvalid | AgentRefused | WorkspaceConflict

/**
 * The agents of a workspace (section 4.3). Every operation changes its files and the registry at once or not at all; of
 * two at the same time one is done and the other a conflict.
 */
export class Agents extends Context.Service<
  Agents,
  {
    readonly list: (workspace: OrganizationId) => Effect.Effect<{
      readonly installed: ReadonlyArray<Agent>
      readonly available: ReadonlyArray<Agent>
      readonly current: CurrentEntry
    }>
    readonly current: (workspace: OrganizationId) => Effect.Effect<CurrentEntry>
    readonly install: (
      workspace: OrganizationId,
      wanted: AgentToInstall
    ) => Effect.Effect<Agent, AgentFailure | UnknownAgent | SourceNotFound | SourceTooLarge>
    /**
     * Makes an installed agent the current one, or the file at an absolute path: one of the workspace as it is, one of
     * `AGENT_SOURCE_ROOTS` as a copy in the agent's directory. It runs when this returns; if it cannot, the agent
     * before is current again.
     */
    readonly switchTo: (
      workspace: OrganizationId,
      wanted: { readonly id: AgentId; readonly path: string | undefined }
    ) => Effect.Effect<
      { readonly id: AgentId; readonly name: string },
      AgentFailure | AgentNotStarted | UnknownAgent | SourceNotFound | SourceTooLarge
    >
    readonly validateName: (workspace: OrganizationId, id: string) => Effect.Effect<NameVerdict>
    /**
     * Removes an agent with its files and their backups. The current one only with `force`: then the agent of a new
     * workspace becomes current, installed again if need be; without that agent itself, none is current.
     */
    readonly uninstall: (
      workspace: OrganizationId,
      wanted: { readonly id: AgentId; readonly force: boolean }
    ) => Effect.Effect<void, AgentFailure | AgentNotStarted | UnknownAgent>
    readonly create: (workspace: OrganizationId, wanted: AgentToCreate) => Effect.Effect<Agent, AgentFailure>
  }
>()("gateway/agent/Agents") {
  static readonly layer = Layer.effect(
    Agents,
    Effect.gen(function* () {
      const files = yield* WorkspaceFiles
      const currentAgent = yield* CurrentAgent
      const packaged = yield* (yield* PackagedAgents).list
      const yaml = yield* AgentYaml
      const environment = yield* Environment
      const running = yield* RunningAgents
      const backups = yield* AgentBackups
      const allowed = yield* AllowedTools
      const { providers } = yield* KnownModels
      const readSource = yield* makeSourceReader
      const preferring = yield* makePreferring
      const placeKey = yield* makeKeyPlacing

      const packagedAs = (id: string): PackagedAgent | undefined => packaged.find(({ agent }) => agent.id === id)

      const verdict = ({ agents }: AgentRegistry, id: string): NameVerdict => {
        if (!isAgentId(id)) {
          const message = "An id has 1 to 64 lowercase letters, digits and hyphens, and starts with no hyphen."
          return { valid: false, conflict: "invalid", message }
        }
        const installed = agents.find((agent) => agent.id === id)
        const taken = installed?.type ?? packagedAs(id)?.agent.type
        if (taken === undefined) return { valid: true }
        const how = installed === undefined ? "comes with the service" : "is installed"
        return { valid: false, conflict: taken, message: `The agent ${JSON.stringify(id)} ${how}. Choose another id.` }
      }

      const variablesOf = (workspace: OrganizationId) =>
        Effect.map(
          environment.variables(workspace),
          (variables) => new Map([...variables].map(([name, value]) => [name, Redacted.value(value)]))
        )

      /** What a configuration says, if it is sound. */
      const checked = Effect.fnUntraced(function* (workspace: OrganizationId, file: string, text: string) {
        const { errors, valid } = yaml.read(text, yield* variablesOf(workspace))
        if (Array.isReadonlyArrayNonEmpty(errors)) return yield* new AgentFileInvalid({ file, errors })
        return valid ?? (yield* Effect.die(new Error(`${file} has no errors and is not valid`)))
      })

      /** The text of a sound configuration as it is installed. */
      const injected = Effect.fnUntraced(function* (workspace: OrganizationId, text: string, wanted: boolean) {
        return wanted ? yield* preferring(workspace, text, yield* variablesOf(workspace)) : text
      })

      /**
       * The changes that put files into an agent's directory. What stands there already must be the same as the source,
       * such as when a directory of the workspace is installed where it is: nobody's work is overwritten.
       */
      const placing = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        id: AgentId,
        source: ReadonlyMap<string, Uint8Array>,
        changed: ReadonlyMap<string, Uint8Array>
      ) {
        const changes: Array<FileChange> = []
        for (const [name, original] of source) {
          const path = yield* placeOf(id, name)
          const content = changed.get(name) ?? original
          const there = yield* files.read(workspace, path)
          if (Option.isSome(there) && !isSame(there.value.content, original)) {
            return yield* refused("id", `${path} is there already, with another content. Choose another id.`)
          }
          if (Option.isSome(there) && isSame(there.value.content, content)) continue
          changes.push({ path, content, basedOn: Option.isSome(there) ? there.value.version : null })
        }
        return changes
      })

      const entryOf = ({ current }: AgentRegistry): CurrentEntry => ({
        id: current?.id ?? null,
        name: current?.name ?? null
      })

      const list = Effect.fn("Agents.list")(function* (workspace: OrganizationId) {
        const { registry } = yield* currentAgent.registry(workspace)
        const ids = new Set(registry.agents.map(({ id }) => id))
        return {
          installed: registry.agents.map(listed),
          available: packaged.map(({ agent }) => agent).filter(({ id }) => !ids.has(id)),
          current: entryOf(registry)
        }
      })

      /** A packaged agent as it is put into a workspace. */
      const packagedChanges = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        { agent, files: source, main }: PackagedAgent,
        injectPreferences: boolean
      ) {
        const text = yield* injected(workspace, textOf(source.get(main)), injectPreferences)
        return {
          installed: { ...agent, main: WorkspacePath.make(`agents/${agent.id}/${main}`) },
          changes: yield* placing(workspace, agent.id, source, new Map([[main, bytesOf(text)]]))
        }
      })

      const customChanges = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        id: AgentId,
        injectPreferences: boolean,
        custom: NonNullable<AgentToInstall["custom"]>
      ) {
        const source = yield* readSource(workspace, custom.sourcePath)
        const main = yield* mainOf(source, id, custom.main)
        const original = textOf(source.files.get(main))
        yield* checked(workspace, main, original)
        const text = yield* injected(workspace, original, injectPreferences)
        const changes = yield* placing(workspace, id, source.files, new Map([[main, bytesOf(text)]]))
        const installed: InstalledAgent = {
          id,
          name: custom.name ?? nameOf(id),
          description: custom.description,
          author: custom.author,
          tags: custom.tags,
          type: "custom",
          main: WorkspacePath.make(`agents/${id}/${main}`)
        }
        return { installed, changes }
      })

      const install = Effect.fn("Agents.install")(function* (
        workspace: OrganizationId,
        { custom, id, injectPreferences }: AgentToInstall
      ) {
        const { registry, version } = yield* currentAgent.registry(workspace)
        const taken = verdict(registry, id)
        const isInstalled = registry.agents.some((agent) => agent.id === id)
        if (isInstalled && custom === undefined) {
          return yield* refused("id", `The agent ${JSON.stringify(id)} is installed already.`)
        }
        if (!taken.valid && custom !== undefined) return yield* refused("id", taken.message)
        const known = packagedAs(id)
        const { changes, installed } = yield* custom !== undefined
          ? customChanges(workspace, id, injectPreferences, custom)
          : known !== undefined
            ? packagedChanges(workspace, known, injectPreferences)
            : Effect.fail(new UnknownAgent({ id, isAvailable: false }))
        yield* files.commit(workspace, [...changes, saving(withAgent(registry, installed), version)])
        return listed(installed)
      })

      /** What the changes took away, for as far as nobody has changed it again meanwhile. */
      const undoing = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        done: ReadonlyArray<FileChange>,
        before: ReadonlyMap<WorkspacePath, Uint8Array>
      ) {
        const undo: Array<FileChange> = []
        for (const { content, path } of done) {
          const now = yield* files.read(workspace, path)
          const isOurs = Option.isNone(now) ? content === null : content !== null && isSame(now.value.content, content)
          // Of another who has taken over since: not ours to undo.
          if (!isOurs && path === registryPath) return []
          if (isOurs) {
            const basedOn = Option.isSome(now) ? now.value.version : null
            undo.push({ path, content: before.get(path) ?? null, basedOn })
          }
        }
        return undo
      })

      /** Does the changes and starts the agent that is current then; if it cannot be started, nothing has happened. */
      const activate = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        id: AgentId | undefined,
        changes: ReadonlyArray<FileChange>
      ) {
        const before = new Map<WorkspacePath, Uint8Array>()
        for (const { path } of changes) {
          const found = yield* files.read(workspace, path)
          if (Option.isSome(found)) before.set(path, found.value.content)
        }
        yield* files.commit(workspace, changes)
        const started = yield* Effect.exit(running.reload(workspace))
        if (Exit.isSuccess(started) || id === undefined) return
        const undo = yield* undoing(workspace, changes, before)
        yield* Effect.catch(files.commit(workspace, undo), (conflict) =>
          Effect.logWarning("An agent that does not start is left current: its files were changed meanwhile.", {
            workspace,
            agent: id,
            path: conflict.path
          })
        )
        // Whatever ran before runs again, or fails as it did before.
        yield* Effect.ignore(running.reload(workspace))
        return yield* Effect.mapError(started, ({ message }) => new AgentNotStarted({ id, reason: message }))
        // A caller who hangs up must not leave it half-way.
      }, Effect.uninterruptible)

      const atPath = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        { agents }: AgentRegistry,
        id: AgentId,
        path: string
      ) {
        const source = yield* readSource(workspace, path)
        const [name] = source.files.keys()
        if (source.isDirectory || name === undefined) {
          return yield* refused("path", `${path} is a directory. Send the path of a configuration file.`)
        }
        const main = source.below ?? (yield* placeOf(id, name))
        const installed = agents.find((agent) => agent.id === id)
        if (installed !== undefined && source.below?.startsWith(`agents/${id}/`) !== true) {
          return yield* refused("id", `The agent ${JSON.stringify(id)} is installed, and this is no file of it.`)
        }
        if (installed === undefined && packagedAs(id) !== undefined) {
          return yield* refused("id", `The agent ${JSON.stringify(id)} comes with the service. Choose another id.`)
        }
        const content = source.files.get(name) ?? new Uint8Array()
        const { document } = yield* checked(workspace, main, textOf(content))
        return {
          name: installed?.name ?? document.agentCard?.name ?? nameOf(id),
          main,
          changes: source.below === undefined ? yield* copying(workspace, id, main, content) : []
        }
      })

      /** The changes that make a file a copy of one elsewhere; what it was before is kept. */
      const copying = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        id: AgentId,
        path: WorkspacePath,
        content: Uint8Array
      ): Effect.fn.Return<ReadonlyArray<FileChange>> {
        const there = yield* files.read(workspace, path)
        if (Option.isNone(there)) return [{ path, content, basedOn: null }]
        if (isSame(there.value.content, content)) return []
        const kept = yield* backups.keeping(workspace, id, there.value.content)
        return [...kept, { path, content, basedOn: there.value.version }]
      })

      const installedFile = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        { agents }: AgentRegistry,
        id: AgentId
      ) {
        const installed = agents.find((agent) => agent.id === id)
        if (installed === undefined) {
          return yield* new UnknownAgent({ id, isAvailable: packagedAs(id) !== undefined })
        }
        const found = yield* files.read(workspace, installed.main)
        if (Option.isNone(found)) {
          return yield* refused(
            "id",
            `Its configuration ${installed.main} is gone. Uninstall the agent and install it again.`
          )
        }
        yield* checked(workspace, installed.main, textOf(found.value.content))
        return { name: installed.name, main: installed.main, changes: [] }
      })

      const switchTo = Effect.fn("Agents.switchTo")(function* (
        workspace: OrganizationId,
        { id, path }: { readonly id: AgentId; readonly path: string | undefined }
      ) {
        const { registry, version } = yield* currentAgent.registry(workspace)
        const { changes, main, name } = yield* path === undefined
          ? installedFile(workspace, registry, id)
          : atPath(workspace, registry, id, path)
        const current = { id, name, main }
        yield* activate(workspace, id, [...changes, saving({ ...registry, current }, version)])
        return { id, name }
      })

      const validateName = Effect.fn("Agents.validateName")(function* (workspace: OrganizationId, id: string) {
        return verdict((yield* currentAgent.registry(workspace)).registry, id)
      })

      const uninstall = Effect.fn("Agents.uninstall")(function* (
        workspace: OrganizationId,
        { force, id }: { readonly id: AgentId; readonly force: boolean }
      ) {
        const { registry, version } = yield* currentAgent.registry(workspace)
        if (!registry.agents.some((agent) => agent.id === id)) {
          return yield* new UnknownAgent({ id, isAvailable: packagedAs(id) !== undefined })
        }
        const { current } = registry
        const isCurrent = current !== null && (current.id === id || current.main.startsWith(`agents/${id}/`))
        if (isCurrent && !force) {
          const name = JSON.stringify(id)
          return yield* refused(
            "id",
            `The agent ${name} is active. Switch to another one first, or send "force": true.`
          )
        }
        const removed = [
          ...(yield* files.list(workspace, WorkspacePath.make(`agents/${id}`))),
          ...(yield* files.list(workspace, WorkspacePath.make(`backups/${id}`)))
        ].map(({ path, version: basedOn }): FileChange => ({ path, content: null, basedOn }))
        // First, so that no agent that is installed under this id later finds what this one was allowed.
        yield* allowed.forgetAgent(workspace, id)
        const left = { ...registry, agents: registry.agents.filter((agent) => agent.id !== id) }
        if (!isCurrent) return yield* files.commit(workspace, [...removed, saving(left, version)])

        const [standard] = packaged
        if (standard === undefined || standard.agent.id === id) {
          return yield* activate(workspace, undefined, [...removed, saving({ ...left, current: null }, version)])
        }
        const there = left.agents.find((agent) => agent.id === standard.agent.id)
        const { changes, installed } =
          there === undefined
            ? // Preferences that do not fit must not keep anybody from removing an agent.
              yield* Effect.catch(packagedChanges(workspace, standard, true), () =>
                packagedChanges(workspace, standard, false)
              )
            : { changes: [], installed: there }
        const next = {
          ...(there === undefined ? withAgent(left, installed) : left),
          current: { id: installed.id, name: installed.name, main: installed.main }
        }
        yield* activate(workspace, installed.id, [...removed, ...changes, saving(next, version)])
      })

      const create = Effect.fn("Agents.create")(function* (workspace: OrganizationId, wanted: AgentToCreate) {
        const { llm, systemPrompt, ...described } = wanted
        const { registry, version } = yield* currentAgent.registry(workspace)
        const taken = verdict(registry, wanted.id)
        if (!taken.valid) return yield* refused("id", taken.message)
        if (!providers.has(llm.provider)) {
          return yield* new AgentRefused({
            code: "unknown_provider",
            path: ["llm", "provider"],
            message: `There is no provider ${JSON.stringify(llm.provider)}. Use one of ${[...providers.keys()].join(", ")}.`
          })
        }
        const key = yield* placeKey(workspace, wanted.id, llm.provider, llm.apiKey)
        const main = `${wanted.id}.yml`
        const text = yaml.write({
          agentCard: { name: wanted.name, description: wanted.description },
          systemPrompt,
          llm: {
            provider: llm.provider,
            model: llm.model,
            ...(key.reference === undefined ? {} : { apiKey: key.reference })
          }
        })
        yield* checked(workspace, main, text)
        const changes = yield* placing(workspace, wanted.id, new Map([[main, bytesOf(text)]]), new Map())
        const installed: InstalledAgent = {
          ...described,
          type: "custom",
          main: WorkspacePath.make(`agents/${wanted.id}/${main}`)
        }
        const saved = saving(withAgent(registry, installed), version)
        yield* Effect.catchDefect(files.commit(workspace, [...changes, ...key.changes, saved]), (defect) =>
          isSecretsUnavailable(defect)
            ? Effect.fail(keyRefused(`This deployment stores no keys. ${defect.message}`))
            : Effect.die(defect)
        )
        return listed(installed)
      })

      return Agents.of({
        list,
        current: Effect.fn("Agents.current")(function* (workspace) {
          return entryOf((yield* currentAgent.registry(workspace)).registry)
        }),
        install,
        switchTo,
        validateName,
        uninstall,
        create
      })
    })
  )
}

const isAgentId = Schema.is(AgentId)

const isSecretsUnavailable = Schema.is(SecretsUnavailable)

const decodePath = Schema.decodeEffect(WorkspacePath)

const listed = ({ author, description, id, name, tags, type }: Agent): Agent => ({
  id,
  name,
  description,
  author,
  tags,
  type
})

const refused = (field: string, message: string) =>
  new AgentRefused({ code: "agent_validation_error", path: [field], message })

/** Where a file of an agent is in the workspace. */
const placeOf = (id: AgentId, name: string) =>
  Effect.mapError(decodePath(`agents/${id}/${name}`), () =>
    refused("sourcePath", `A file of an agent cannot be named ${JSON.stringify(name)}.`)
  )

const withAgent = (registry: AgentRegistry, agent: InstalledAgent): AgentRegistry => ({
  ...registry,
  agents: [...registry.agents, agent]
})

const saving = (registry: AgentRegistry, version: string): FileChange => ({
  path: registryPath,
  content: bytesOf(encodeRegistry(registry)),
  basedOn: version
})

const isSame = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, index) => byte === b[index])

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

/** Bytes that are no UTF-8 become signs that the reader of the text complains of. */
const textOf = (bytes: Uint8Array = new Uint8Array()): string => new TextDecoder().decode(bytes)
