import { Schema } from "effect"
import { WorkspacePath } from "../workspace/WorkspacePath.ts"
import { Agent, AgentId } from "./Agent.ts"

/** An installed agent: where its configuration is, besides how it is listed. */
export const InstalledAgent = Schema.Struct({
  ...Agent.fields,
  /** The configuration file, such as `agents/coding-agent/coding-agent.yml`. */
  main: WorkspacePath
})
export type InstalledAgent = typeof InstalledAgent.Type

/**
 * `agent-registry.json` of a workspace (decisions 3): what is installed, and which agent is current. An agent that was
 * switched to by a path need not be installed, so the current one is told with its file.
 */
export const AgentRegistry = Schema.Struct({
  agents: Schema.Array(InstalledAgent),
  current: Schema.NullOr(Schema.Struct({ id: AgentId, name: Schema.String, main: WorkspacePath }))
})
export type AgentRegistry = typeof AgentRegistry.Type

/** Where it stands in a workspace. */
export const registryPath = WorkspacePath.make("agent-registry.json")
