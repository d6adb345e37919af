import { Result, Schema } from "effect"
import { ApprovalAnswer } from "../../domain/conversation/Approval.ts"
import { longestText } from "../../domain/conversation/Message.ts"
import { SessionId } from "../../domain/conversation/Session.ts"
import { codedIssuesOf } from "../../domain/shared/CodedIssue.ts"
import { deepestJson, extentOf, mostJsonValues } from "../../domain/shared/JsonExtent.ts"
import { unstorableIn } from "../../domain/shared/Unstorable.ts"

/** What a client may send (decisions 6). Nothing else stands in a frame. */
export const ClientFrame = Schema.Union([
  Schema.Struct({
    type: Schema.Literal("message"),
    content: Schema.String.check(Schema.isMaxLength(longestText)),
    /** None: the session `default`, as of messages over HTTP. */
    sessionId: Schema.optionalKey(SessionId),
    /** Whether chunks are wanted; none are, if it does not say so. */
    stream: Schema.optionalKey(Schema.Boolean),
    imageData: Schema.optionalKey(Schema.Struct({ base64: Schema.String, mimeType: Schema.String })),
    fileData: Schema.optionalKey(
      Schema.Struct({ base64: Schema.String, mimeType: Schema.String, filename: Schema.optionalKey(Schema.String) })
    )
  }),
  Schema.Struct({ type: Schema.Literal("reset"), sessionId: Schema.optionalKey(SessionId) }),
  Schema.Struct({ type: Schema.Literal("cancel"), sessionId: SessionId }),
  Schema.Struct({
    type: Schema.Literal("approvalResponse"),
    data: Schema.Struct({
      approvalId: Schema.String,
      status: ApprovalAnswer.fields.status,
      data: Schema.optionalKey(
        Schema.Struct({
          rememberChoice: ApprovalAnswer.fields.rememberChoice,
          formData: ApprovalAnswer.fields.formData
        })
      )
    })
  }),
  Schema.Struct({
    type: Schema.Literal("subscribe"),
    sessionId: SessionId,
    /** The number of the last event that the client has. */
    after: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)))
  })
])
export type ClientFrame = typeof ClientFrame.Type

/** The frame cannot be understood. */
export class FrameRefused extends Schema.TaggedError<FrameRefused>()("FrameRefused", {
  code: Schema.Literals(["invalid_json", "invalid_frame"]),
  message: Schema.String
}) {}

/** A frame that carries no attachment has at most so many bytes. */
export const mostBytes = 1024 * 1024

/** One that carries one. */
export const mostBytesAttached = 25_000_000

/** Whether a frame of this length may be read at all: a longer one has to carry an attachment. */
export const isAcceptable = (bytes: Buffer): boolean =>
  bytes.byteLength <= mostBytes || bytes.includes('"imageData"') || bytes.includes('"fileData"')

export const carriesAttachment = (frame: ClientFrame): boolean =>
  frame.type === "message" && (frame.imageData !== undefined || frame.fileData !== undefined)

const decode = Schema.decodeUnknownResult(ClientFrame, { onExcessProperty: "error", errors: "all" })

/** What the bytes of a text frame say. */
export const read = (bytes: Buffer): Result.Result<ClientFrame, FrameRefused> => {
  const text = bytes.toString("utf8")
  const { depth, values } = extentOf(text)
  if (depth > deepestJson) return notJson(`it is nested deeper than ${deepestJson} levels.`)
  if (values > mostJsonValues) return notJson(`it has more than ${mostJsonValues} values.`)
  const parsed = Result.try({ try: (): unknown => JSON.parse(text), catch: () => "a frame is one JSON object." })
  if (Result.isFailure(parsed)) return notJson(parsed.failure)
  const value = parsed.success
  const unstorable = unstorableIn(value)
  if (unstorable !== undefined) return refused([unstorable])
  return Result.match(decode(value), {
    onSuccess: Result.succeed,
    onFailure: (error) => refused(codedIssuesOf(error, value))
  })
}

const notJson = (why: string) =>
  Result.fail(new FrameRefused({ code: "invalid_json", message: `The frame cannot be read: ${why}` }))

/** A client can act on a few mistakes at a time. */
const mostMistakes = 10

/** An answer quotes its frame, and must not grow with it. */
const longest = 500

const refused = (
  mistakes: ReadonlyArray<{ readonly path: ReadonlyArray<PropertyKey>; readonly message: string }>
): Result.Result<never, FrameRefused> =>
  Result.fail(
    new FrameRefused({
      code: "invalid_frame",
      message: mistakes
        .slice(0, mostMistakes)
        .map(({ message, path }) =>
          (path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`).slice(0, longest)
        )
        .join("; ")
    })
  )
