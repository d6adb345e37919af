import { Predicate, Result, Schema } from "effect"
import type { Completion } from "../../../../domain/completion/Completion.ts"
import type { CompletionEvent } from "../../../../domain/completion/CompletionEvent.ts"
import { Folded } from "../../../../domain/completion/Folded.ts"
import type { UpstreamSaid } from "../../Protocol.ts"
import { Answer } from "./Answer.ts"
import { Ending } from "./Ending.ts"
import { failureOf, said } from "./Failure.ts"
import type { Form } from "./Form.ts"
import { readOutputItem } from "./OutputItem.ts"

const decode = Schema.decodeUnknownResult(Schema.Struct({ ...Ending.fields, output: Schema.Array(Schema.Unknown) }))

type Read = Result.Result<Completion, Schema.SchemaError | UpstreamSaid>

/** A whole answer: the same as a stream in which every item comes at once. */
export const readResponse = (body: unknown, form: Form): Read => {
  if (Predicate.hasProperty(body, "error") && body.error != null) return Result.fail(failureOf(body))
  return Result.flatMap(decode(body), (response): Read => {
    const { status } = response
    if (status != null && status !== "completed" && status !== "incomplete") {
      return Result.fail(said(`The response is ${status}.`))
    }
    return Result.map(Result.all(response.output.map(readOutputItem)), (items): Completion => {
      const answer = new Answer(form)
      const folded = new Folded()
      const add = (events: ReadonlyArray<CompletionEvent>) => events.forEach((event) => folded.add(event))
      items.forEach((item, at) => add(answer.done(at, item)))
      add(answer.end(response))
      return folded.completion
    })
  })
}
