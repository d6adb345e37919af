import { Effect, Option, Redacted, Schema } from "effect"
import type { AgentId } from "../../domain/agent/Agent.ts"
import { AgentRefused } from "../../domain/agent/AgentErrors.ts"
import { VariableReference } from "../../domain/agent/Preferences.ts"
import { ProviderKeyText } from "../../domain/identity/ProviderKey.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { parseEnv, setEnv } from "../../domain/workspace/EnvText.ts"
import { refusedName } from "../../domain/workspace/EnvVariable.ts"
import { environmentPath } from "../../domain/workspace/WorkspacePath.ts"
import { type FileChange, WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"
import { KnownModels } from "../ports/vendor/KnownModels.ts"

/** Where the key of a new agent is: what its file says, and for a key as such the change of `.env` that keeps it. */
export interface AgentKey {
  /** Undefined for a provider that needs no key. */
  readonly reference: string | undefined
  readonly changes: ReadonlyArray<FileChange>
}

/**
 * Keys of agents never stand in their files (section 4.3): one that is given as such goes to `.env`, in the same commit
 * as the file that names its variable, so that neither is there without the other.
 */
export const makeKeyPlacing = Effect.gen(function* () {
  const files = yield* WorkspaceFiles
  const { providers } = yield* KnownModels

  return Effect.fnUntraced(function* (
    workspace: OrganizationId,
    id: AgentId,
    provider: string,
    given: Redacted.Redacted | undefined
  ): Effect.fn.Return<AgentKey, AgentRefused> {
    const usual = providers.get(provider)?.keyVariable
    const key = given === undefined ? "" : Redacted.value(given)
    if (key === "") return { reference: usual === undefined ? undefined : `$${usual}`, changes: [] }
    if (isReference(key)) return { reference: key, changes: [] }
    if (!isKeyText(key)) return yield* keyRefused(unfit)

    const file = yield* files.read(workspace, environmentPath)
    const text = Option.isSome(file) ? exactText(file.value.content) : ""
    if (text === undefined) {
      return yield* keyRefused("The file .env of the workspace is not UTF-8. Save it as UTF-8 first.")
    }
    const variables = parseEnv(text)
    const candidates = variablesFor(usual, provider, id)
    const variable = candidates.find((name) => {
      const value = variables.get(name)
      return refusedName(name) === undefined && (value === undefined || value === "" || value === key)
    })
    if (variable === undefined) {
      return yield* keyRefused(
        `${candidates.join(", ")} have other values already. Send a reference such as $MY_API_KEY instead.`
      )
    }
    const reference = `$${variable}`
    if (variables.get(variable) === key) return { reference, changes: [] }
    const content = new TextEncoder().encode(setEnv(text, variable, key))
    const basedOn = Option.isSome(file) ? file.value.version : null
    return { reference, changes: [{ path: environmentPath, content, basedOn }] }
  })
})

export const keyRefused = (message: string): AgentRefused =>
  new AgentRefused({ code: "agent_validation_error", path: ["llm", "apiKey"], message })

const isReference = Schema.is(VariableReference)

/** The same that is a key wherever else one is saved; nothing is said of the value. */
const isKeyText = Schema.is(ProviderKeyText)

const unfit =
  "A key has 1 to 4096 visible ASCII characters without spaces. Send one, or a reference such as $MY_API_KEY."

/** Which variables may take a key: the provider's usual one and, if that has another key, one of the agent's own. */
const variablesFor = (usual: string | undefined, provider: string, id: AgentId): ReadonlyArray<string> => {
  const upper = (text: string) => text.toUpperCase().replaceAll(/[^A-Z0-9]+/g, "_")
  const own = `${upper(provider)}_${upper(id)}`
  return [usual ?? `${upper(provider)}_API_KEY`, `${own}_API_KEY`, `${own}_2_API_KEY`]
}

/** The text with its byte order mark; undefined if writing it back would change the bytes. */
const exactText = (bytes: Uint8Array): string | undefined => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
