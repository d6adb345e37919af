import { Schema } from "effect"

/** The name of an agent's directory (section 4.3): lowercase letters, digits and hyphens. */
export const AgentId = Schema.String.check(
  Schema.isPattern(/^[a-z0-9][a-z0-9-]{0,63}$/, {
    expected: "1 to 64 lowercase letters, digits and hyphens, starting with a letter or a digit"
  })
).pipe(Schema.brand("AgentId"))
export type AgentId = typeof AgentId.Type

export const AgentType = Schema.Literals(["builtin", "custom"])
export type AgentType = typeof AgentType.Type

/** An agent as it is listed (section 2.6). */
export const Agent = Schema.Struct({
  id: AgentId,
  name: Schema.String,
  description: Schema.String,
  author: Schema.String,
  tags: Schema.Array(Schema.String),
  type: AgentType
})
export type Agent = typeof Agent.Type
