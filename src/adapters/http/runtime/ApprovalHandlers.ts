import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Approvals } from "../../../application/conversation/Approvals.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const ApprovalHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "approvals",
  Effect.fnUntraced(function* (handlers) {
    const approvals = yield* Approvals

    return handlers
      .handle("listApprovals", ({ query: { sessionId } }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => approvals.list(id, sessionId)).pipe(
          Effect.map((open) => ({ ok: true as const, approvals: open }))
        )
      )
      .handle("answerApproval", ({ params, payload }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => approvals.answer(id, params.id, payload)).pipe(
          Effect.as({ ok: true as const, approvalId: params.id, status: payload.status }),
          Effect.catchTags({ ApprovalNotFound: ({ message }) => Effect.succeed(messageEnvelope(404, message)) })
        )
      )
  })
)
