import { Schema } from "effect"
import { ConfigError } from "./ConfigIssue.ts"

/** No agent of this id is installed or, where it is to be installed, comes with the service. */
export class UnknownAgent extends Schema.TaggedError<UnknownAgent>()("UnknownAgent", {
  id: Schema.String,
  /** Whether it could be installed. */
  isAvailable: Schema.Boolean
}) {
  override get message() {
    return this.isAvailable
      ? `The agent ${JSON.stringify(this.id)} is not installed. POST /api/agents/install with its id first.`
      : `There is no agent ${JSON.stringify(this.id)}. GET /api/agents lists those that are installed and available.`
  }
}

/** What is asked for cannot be done to the agents as they are. Nothing of it was done. */
export class AgentRefused extends Schema.TaggedError<AgentRefused>()("AgentRefused", {
  code: Schema.Literals(["agent_validation_error", "unknown_provider"]),
  /** The field of the request that is at fault. */
  path: Schema.Array(Schema.String),
  message: Schema.String
}) {}

/** The configuration file of an agent has mistakes, or it cannot be started. Nothing was changed. */
export class AgentFileInvalid extends Schema.TaggedError<AgentFileInvalid>()("AgentFileInvalid", {
  /** The file, as the caller may know it. */
  file: Schema.String,
  errors: Schema.NonEmptyArray(ConfigError)
}) {
  override get message() {
    return `${this.file}: ${this.errors.map(({ line, message, path }) => `line ${line}: ${path === "" ? message : `${path}: ${message}`}`).join("; ")}`
  }
}

/** The agent could not be started with a sound configuration. The one before is current again. */
export class AgentNotStarted extends Schema.TaggedError<AgentNotStarted>()("AgentNotStarted", {
  id: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `The agent ${JSON.stringify(this.id)} could not be started, so nothing was changed: ${this.reason}`
  }
}
