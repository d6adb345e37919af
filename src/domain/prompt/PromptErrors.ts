import { Schema } from "effect"

/** The workspace has no prompt of this name. */
export class PromptNotFound extends Schema.TaggedError<PromptNotFound>()("PromptNotFound", { name: Schema.String }) {
  override get message() {
    return `There is no prompt ${JSON.stringify(this.name)}. GET /api/prompts lists them.`
  }
}

/** Another prompt has this name, whatever its source. */
export class PromptExists extends Schema.TaggedError<PromptExists>()("PromptExists", { name: Schema.String }) {
  override get message() {
    return `There is a prompt ${JSON.stringify(this.name)} already. Choose another name.`
  }
}

/** Only custom prompts can be deleted. */
export class PromptNotCustom extends Schema.TaggedError<PromptNotCustom>()("PromptNotCustom", {
  name: Schema.String,
  source: Schema.Literals(["builtin", "starter", "mcp"])
}) {
  override get message() {
    const origin = { builtin: "is built in", starter: "belongs to the agent", mcp: "belongs to an MCP server" }
    return `The prompt ${JSON.stringify(this.name)} ${origin[this.source]} and cannot be deleted.`
  }
}

/** A prompt cannot be resolved without these. */
export class MissingArguments extends Schema.TaggedError<MissingArguments>()("MissingArguments", {
  prompt: Schema.String,
  names: Schema.Array(Schema.String)
}) {
  override get message() {
    const names = this.names.map((name) => JSON.stringify(name)).join(", ")
    return `The prompt ${JSON.stringify(this.prompt)} needs ${this.names.length === 1 ? "the argument" : "the arguments"} ${names}. Give them as JSON: ?args={"name":"value"}.`
  }
}
