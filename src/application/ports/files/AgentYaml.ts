import { Context } from "effect"
import type { AgentConfig, AgentDocument } from "../../../domain/agent/AgentConfig.ts"
import type { ConfigError, ConfigWarning } from "../../../domain/agent/ConfigIssue.ts"

/**
 * Agents' YAML (decisions 4): reading it with the position of every mistake, and changing it so that the comments and
 * the order of the user's file stay. Pure: nothing is read but what is given. A text over 64 KB, an alias bomb, a cycle
 * and a repeated key are errors like any other.
 */
export class AgentYaml extends Context.Service<
  AgentYaml,
  {
    /** `variables` are those of the workspace's `.env`; a variable that is not there is a warning and an empty text. */
    readonly read: (text: string, variables: ReadonlyMap<string, string>) => AgentReading
    /** Sets or, with undefined, removes values by their paths, such as `["llm", "model"]`. The text has to be valid. */
    readonly edit: (text: string, edits: ReadonlyArray<YamlEdit>) => string
    /** A new file of these values, in their order. */
    readonly write: (value: object) => string
    /** Any YAML of at most 64 KB as plain data, such as `preferences.yml`; null if it says nothing, undefined if it is none. */
    readonly parse: (text: string) => unknown
  }
>()("gateway/ports/files/AgentYaml") {}

export interface AgentReading {
  readonly errors: ReadonlyArray<ConfigError>
  readonly warnings: ReadonlyArray<ConfigWarning>
  /** Undefined if there are errors. */
  readonly valid: { readonly document: AgentDocument; readonly config: AgentConfig } | undefined
}

export interface YamlEdit {
  readonly path: ReadonlyArray<string | number>
  readonly value: unknown
}
