import { Schema } from "effect"

const NonEmptyArray = <S extends Schema.Top>(item: S) => Schema.Array(item).check(Schema.isMinLength(1))

/** An address, data URIs included: anything with a scheme. */
const Uri = Schema.String.check(Schema.isPattern(/^[A-Za-z][A-Za-z0-9+.-]*:\S+$/, { expected: "a URI" }))

const base64OrUri = /^(?:[A-Za-z][A-Za-z0-9+.-]*:\S+|[A-Za-z0-9+/_-]+={0,2})$/

export const TextPart = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

export const ImageUrlPart = Schema.Struct({
  type: Schema.Literal("image_url"),
  image_url: Schema.Struct({ url: Uri })
})

export const FilePart = Schema.Struct({
  type: Schema.Literal("file"),
  file: Schema.Struct({
    file_data: Schema.String.check(Schema.isPattern(base64OrUri, { expected: "a URI or a base64 string" })),
    filename: Schema.optionalKey(Schema.String)
  })
})

export const AudioFormat = Schema.Literals(["aac", "aiff", "flac", "m4a", "mp3", "ogg", "pcm16", "pcm24", "wav"])

export const InputAudioPart = Schema.Struct({
  type: Schema.Literal("input_audio"),
  input_audio: Schema.Struct({ data: Schema.String, format: AudioFormat })
})

export const RefusalPart = Schema.Struct({ type: Schema.Literal("refusal"), refusal: Schema.String })

export const MediaPart = Schema.Struct({
  type: Schema.Literal("media"),
  data: Schema.String,
  mediaType: Schema.String
})

export const ImagePart = Schema.Struct({
  type: Schema.Literal("image"),
  image: Schema.String,
  mimeType: Schema.optionalKey(Schema.String)
})

export const FileDataPart = Schema.Struct({
  type: Schema.Literal("file"),
  data: Schema.String,
  mimeType: Schema.String
})

export const UserPart = Schema.Union([TextPart, ImageUrlPart, FilePart, InputAudioPart])
export type UserPart = typeof UserPart.Type

export const ToolPart = Schema.Union([TextPart, MediaPart, ImagePart, FileDataPart, ImageUrlPart])
export type ToolPart = typeof ToolPart.Type

const Text = Schema.Union([Schema.String, NonEmptyArray(TextPart)])

export const ToolCall = Schema.Struct({
  id: Schema.NonEmptyString,
  type: Schema.Literal("function"),
  function: Schema.Struct({ name: Schema.NonEmptyString, arguments: Schema.String })
})
export type ToolCall = typeof ToolCall.Type

export const SystemMessage = Schema.Struct({ role: Schema.Literal("system"), content: Text })

export const DeveloperMessage = Schema.Struct({ role: Schema.Literal("developer"), content: Text })

export const UserMessage = Schema.Struct({
  role: Schema.Literal("user"),
  content: Schema.Union([Schema.String, NonEmptyArray(UserPart)])
})

export const AssistantMessage = Schema.Struct({
  role: Schema.Literal("assistant"),
  content: Schema.optionalKey(
    Schema.Union([Schema.String, Schema.Null, Schema.Array(Schema.Union([TextPart, RefusalPart]))])
  ),
  reasoning: Schema.optionalKey(Schema.String),
  reasoning_content: Schema.optionalKey(Schema.String),
  tool_calls: Schema.optionalKey(Schema.Array(ToolCall))
})
export type AssistantMessage = typeof AssistantMessage.Type

export const ToolMessage = Schema.Struct({
  role: Schema.Literal("tool"),
  content: Schema.Union([Schema.String, Schema.Array(ToolPart)]),
  tool_call_id: Schema.NonEmptyString,
  name: Schema.optionalKey(Schema.NonEmptyString)
})
export type ToolMessage = typeof ToolMessage.Type

/** A message of a conversation: the variants of section 4.1. */
export const ChatMessage = Schema.Union([SystemMessage, DeveloperMessage, UserMessage, AssistantMessage, ToolMessage])
export type ChatMessage = typeof ChatMessage.Type
