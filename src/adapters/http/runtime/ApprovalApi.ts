import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Approval, ApprovalAnswer } from "../../../domain/conversation/Approval.ts"
import { messageError } from "./envelopes/MessageEnvelope.ts"

const Ok = { ok: Schema.Literal(true) }

/** What turns wait for a person to say (decisions 6, 7). */
export const ApprovalApi = HttpApiGroup.make("approvals").add(
  HttpApiEndpoint.get("listApprovals", "/api/approvals", {
    query: {
      sessionId: Schema.optionalKey(Schema.String.pipe(Schema.annotateKey({ description: "Of one session only." })))
    },
    success: Schema.Struct({ ...Ok, approvals: Schema.Array(Approval) })
  }).annotateMerge(
    OpenApi.annotations({ identifier: "listApprovals", summary: "questions without an answer, oldest first" })
  ),
  HttpApiEndpoint.post("answerApproval", "/api/approvals/:id", {
    params: { id: Schema.String },
    payload: ApprovalAnswer,
    success: Schema.Struct({ ...Ok, approvalId: Schema.String, status: ApprovalAnswer.fields.status }),
    error: [
      messageError(400, "The status is none of `approved`, `denied` and `cancelled`."),
      messageError(404, "No open question of the workspace has this id: it may have been answered, or be too old."),
      messageError(413, "The body is larger than 1 MiB.")
    ]
  }).annotateMerge(
    OpenApi.annotations({
      identifier: "answerApproval",
      summary: "answer a question",
      description: "On whatever replica. The first answer counts. The turn goes on at once."
    })
  )
)
