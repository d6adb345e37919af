import { Effect, Schema } from "effect"
import { issuesOf } from "../../../domain/shared/Issue.ts"
import type { AgentTool, ToolCallContext, ToolOutcome } from "../AgentTool.ts"
import { failed } from "./Outcomes.ts"

/** A tool of the service itself. The model sees its plain name. */
export const internalTool = <A, I>(tool: {
  readonly name: string
  readonly description: string
  readonly parameters: Schema.Codec<A, I>
  readonly isIdempotent: boolean
  readonly asksItself?: boolean
  readonly run: (args: A, call: ToolCallContext) => Effect.Effect<ToolOutcome>
}): AgentTool => {
  const { asksItself = false, description, isIdempotent, name, parameters, run } = tool
  const decode = Schema.decodeUnknownEffect(parameters)
  return {
    name,
    policyNames: [name, `internal--${name}`],
    description,
    parameters: schemaOf(parameters),
    isIdempotent,
    asksItself,
    run: (args, call) =>
      decode(args).pipe(
        Effect.matchEffect({
          onFailure: (error) => Effect.succeed(failed(correction(name, error))),
          onSuccess: (decoded) => run(decoded, call)
        }),
        Effect.withSpan(`AgentTools.${name}`)
      )
  }
}

const decodeJson = Schema.decodeUnknownSync(Schema.JsonObject)

/** Fields that a schema does not know are passed over, but a model had better not think of any. */
const schemaOf = <A, I>(parameters: Schema.Codec<A, I>): Schema.JsonObject =>
  decodeJson({ ...Schema.toJsonSchemaDocument(parameters).schema, additionalProperties: false })

/** What the model has to change. */
const correction = (name: string, error: Schema.SchemaError): string =>
  [
    `The arguments of ${name} are not right. Change these and call it again:`,
    ...issuesOf(error).map(({ message, path }) => `- ${path === "" ? "the arguments" : path}: ${message}`)
  ].join("\n")
