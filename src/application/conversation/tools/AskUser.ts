import { Effect, Schema } from "effect"
import { internalTool } from "./InternalTool.ts"
import { done, failed } from "./Outcomes.ts"

const Parameters = Schema.Struct({
  question: Schema.NonEmptyString.check(Schema.isMaxLength(4_000)).annotate({
    description: "What the user is asked, in their language. One question at a time."
  }),
  options: Schema.optionalKey(
    Schema.Array(Schema.NonEmptyString)
      .check(Schema.isMinLength(2), Schema.isMaxLength(20))
      .annotate({ description: "Answers to choose from, if only these make sense." })
  )
})

export const askUser = internalTool({
  name: "ask_user",
  description:
    "Asks the user a question and waits for the answer. Use it when the task cannot be done well without something that " +
    "only the user knows or may decide.",
  parameters: Parameters,
  // Whoever asks again finds the same question.
  isIdempotent: true,
  asksItself: true,
  run: ({ options, question }, { elicit }) =>
    Effect.map(elicit({ message: question, schema: formOf(options) }), ({ formData, status }) => {
      if (status === "approved") {
        if (formData === undefined || Object.keys(formData).length === 0)
          return failed("The user sent an empty answer.")
        const { answer } = formData
        return done(typeof answer === "string" ? answer : JSON.stringify(formData))
      }
      return failed(
        status === "denied"
          ? "The user did not answer: they declined, or the time was over. Go on without it, or say what you need."
          : "The user dismissed the question. Go on without an answer."
      )
    })
})

const formOf = (options: ReadonlyArray<string> | undefined): Schema.JsonObject => ({
  type: "object",
  properties: { answer: { type: "string", title: "Answer", ...(options === undefined ? {} : { enum: options }) } },
  required: ["answer"]
})
