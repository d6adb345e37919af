import { Effect, Option, Schema } from "effect"
import { AgentRefused } from "../../domain/agent/AgentErrors.ts"
import { Preferences } from "../../domain/agent/Preferences.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { preferencesPath } from "../../domain/workspace/WorkspacePath.ts"
import { AgentYaml, type YamlEdit } from "../ports/files/AgentYaml.ts"
import { WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"

/**
 * Puts the user's provider, model and key variable in place of those of an agent's file (decisions 3), whose comments
 * stay. The file has to be valid; it is no longer if the preferences do not go with the rest of it.
 */
export const makePreferring = Effect.gen(function* () {
  const files = yield* WorkspaceFiles
  const yaml = yield* AgentYaml

  return Effect.fnUntraced(function* (
    workspace: OrganizationId,
    text: string,
    variables: ReadonlyMap<string, string>
  ): Effect.fn.Return<string, AgentRefused> {
    const found = yield* files.read(workspace, preferencesPath)
    if (Option.isNone(found)) return text
    const written = yaml.parse(new TextDecoder().decode(found.value.content))
    // A file of nothing but comments says nothing.
    const { llm } = yield* Effect.mapError(decode(written === null ? {} : written), () =>
      refused("expected llm with provider, model and, as apiKey, the variable of .env with the key.")
    )
    if (llm === undefined) return text
    const edited = yaml.edit(text, edits(llm, yaml.read(text, variables).valid?.document.llm.provider))
    const [error] = yaml.read(edited, variables).errors
    return error === undefined ? edited : yield* refused(`this agent cannot take it: ${error.message}`)
  })
})

const decode = Schema.decodeUnknownEffect(Preferences)

const refused = (problem: string): AgentRefused =>
  new AgentRefused({
    code: "agent_validation_error",
    path: ["injectPreferences"],
    message: `${preferencesPath}: ${problem} Mend it, or send "injectPreferences": false.`
  })

/**
 * Another provider's key has no business with this one, and a key must never go to an address that came with somebody
 * else's file: both leave with what they belong to.
 */
const edits = (
  { apiKey, baseURL, model, provider }: NonNullable<Preferences["llm"]>,
  before: string | undefined
): ReadonlyArray<YamlEdit> => [
  { path: ["llm", "provider"], value: provider },
  { path: ["llm", "model"], value: model },
  ...(apiKey === undefined && baseURL === undefined && before === provider
    ? []
    : [
        { path: ["llm", "apiKey"], value: apiKey },
        { path: ["llm", "baseURL"], value: baseURL }
      ])
]
