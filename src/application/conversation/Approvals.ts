import { Context, Effect, Layer, Option, Schema } from "effect"
import { type Approval, type ApprovalAnswer, ApprovalId } from "../../domain/conversation/Approval.ts"
import { SessionId } from "../../domain/conversation/Session.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { TurnRunner } from "../ports/runtime/TurnRunner.ts"
import { TurnJournal } from "../ports/storage/TurnJournal.ts"

/** The workspace has no open question of this id: it was answered, or its time is over, or it never was one. */
export class ApprovalNotFound extends Schema.TaggedError<ApprovalNotFound>()("ApprovalNotFound", {
  id: Schema.String
}) {
  override get message() {
    return `There is no open approval ${JSON.stringify(this.id)}.`
  }
}

/** The questions that turns wait for (decisions 6, 7), answered on whatever replica. */
export class Approvals extends Context.Service<
  Approvals,
  {
    /** Oldest first. A session that is not there has none. */
    readonly list: (workspace: OrganizationId, session: string | undefined) => Effect.Effect<ReadonlyArray<Approval>>
    /** The first answer counts. */
    readonly answer: (
      workspace: OrganizationId,
      id: string,
      answer: ApprovalAnswer
    ) => Effect.Effect<void, ApprovalNotFound>
  }
>()("gateway/conversation/Approvals") {
  static readonly layer = Layer.effect(
    Approvals,
    Effect.gen(function* () {
      const journal = yield* TurnJournal
      const runner = yield* TurnRunner

      return Approvals.of({
        list: Effect.fn("Approvals.list")((workspace, session) =>
          session === undefined || isSession(session) ? journal.open(workspace, session) : Effect.succeed([])
        ),
        answer: Effect.fn("Approvals.answer")(function* (workspace, id, answer) {
          const turn = isApproval(id) ? yield* journal.answer(workspace, id, answer) : Option.none()
          if (Option.isNone(turn)) return yield* new ApprovalNotFound({ id })
          yield* runner.wake(turn.value)
        })
      })
    })
  )
}

const isSession = Schema.is(SessionId)
const isApproval = Schema.is(ApprovalId)
