import type { AgentConfig } from "./AgentConfig.ts"

/** What happens to a call of a tool before it runs. */
export type ToolDecision = "allow" | "deny" | "ask"

/**
 * What an agent's `toolConfirmation` says of a tool (decisions 4, 7). A tool that is always denied is refused in every
 * mode, whatever else says of it. Names end with `*` for all that begin so. `names` are those by which policies may
 * speak of the tool, `remembered` those that a person has allowed for good.
 */
export const toolDecision = (
  { mode, toolPolicies }: Pick<AgentConfig["toolConfirmation"], "mode" | "toolPolicies">,
  names: ReadonlyArray<string>,
  remembered: ReadonlySet<string>
): ToolDecision => {
  const speaksOf = (policy: string) => names.some((name) => matches(policy, name))
  if (toolPolicies.alwaysDeny.some(speaksOf)) return "deny"
  if (toolPolicies.alwaysAllow.some(speaksOf)) return "allow"
  if (names.some((name) => remembered.has(name))) return "allow"
  return byMode[mode]
}

const byMode = { "event-based": "ask", "auto-approve": "allow", "auto-deny": "deny" } as const

const matches = (policy: string, name: string): boolean =>
  policy.endsWith("*") ? name.startsWith(policy.slice(0, -1)) : name === policy
