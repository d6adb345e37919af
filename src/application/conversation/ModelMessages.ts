import { Context, Effect, Layer, Option, Schema } from "effect"
import type { ChatMessage, ToolCall, ToolPart, UserPart } from "../../domain/completion/ChatMessage.ts"
import { type ContentPart, type Message, textOf } from "../../domain/conversation/Message.ts"
import { BlobId } from "../../domain/resource/Blob.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { Blobs } from "../ports/storage/Blobs.ts"
import { encode } from "./LongBase64.ts"
import { type ModelMedia, shows } from "./Media.ts"

/** A session's history as a model is given it. */
export class ModelMessages extends Context.Service<
  ModelMessages,
  {
    /**
     * Valid for any vendor: every call of a tool is followed by its one result, and no result stands alone. Of what the
     * model may not be shown, is gone, or has no room beside what is newer, a text says what was there. What was thought
     * stays out: vendors that want it back keep it in the ids of calls.
     */
    readonly of: (
      workspace: OrganizationId,
      history: ReadonlyArray<HistoryMessage>,
      model: ModelMedia
    ) => Effect.Effect<ReadonlyArray<ChatMessage>>
  }
>()("gateway/conversation/ModelMessages") {
  static readonly layer = Layer.effect(
    ModelMessages,
    Effect.gen(function* () {
      const blobs = yield* Blobs

      /** The bytes of each blob that a history names, in base64, or why there are none; the newest first. */
      const mediaOf = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        history: ReadonlyArray<HistoryMessage>,
        model: ModelMedia
      ) {
        const media = new Map<string, Loaded>()
        let room = mostBytes
        for (const part of history.flatMap(mediaIn).toReversed()) {
          const address = addressOf(part)
          if (media.has(address)) continue
          const isShown = shows(model, part.mimeType)
          const id = isShown ? blobIdOf(address) : Option.none()
          const blob = Option.isNone(id) ? Option.none() : yield* blobs.find(workspace, id.value)
          const fits = Option.filter(blob, ({ size }) => size <= room)
          const bytes = Option.isNone(fits) ? Option.none() : yield* blobs.read(workspace, fits.value.id)
          if (Option.isSome(bytes)) {
            room -= bytes.value.length
            media.set(address, { base64: yield* encode(bytes.value) })
          } else if (!isShown) media.set(address, { missing: "this model cannot be shown it" })
          else
            media.set(
              address,
              Option.isSome(blob) && Option.isNone(fits) ? { missing: "there was no room for it" } : gone
            )
        }
        return (part: Medium): Loaded => media.get(addressOf(part)) ?? gone
      })

      return ModelMessages.of({
        of: Effect.fn("ModelMessages.of")(function* (workspace, history, model) {
          return messagesOf(history, yield* mediaOf(workspace, history, model))
        })
      })
    })
  )
}

/** What a model is told of a message; those of a journal that are not stored yet have no time. */
export type HistoryMessage = Omit<Message, "createdAt">

/** Bytes of all that is attached. In base64 they are a third more, and vendors take requests of 32 MB. */
const mostBytes = 22 * 1024 * 1024

type Medium = Exclude<ContentPart, { readonly type: "text" }>

/** The bytes of a medium, or why a model does not get it. */
type Loaded = { readonly base64: string } | { readonly missing: string }

const gone: Loaded = { missing: "it is not kept any more" }

const mediaIn = ({ content }: HistoryMessage): ReadonlyArray<Medium> =>
  content === null || typeof content === "string" ? [] : content.flatMap((part) => (part.type === "text" ? [] : [part]))

const messagesOf = (
  history: ReadonlyArray<HistoryMessage>,
  load: (part: Medium) => Loaded
): ReadonlyArray<ChatMessage> =>
  history.flatMap((message, index): ReadonlyArray<ChatMessage> => {
    const { content, role, toolCalls = [] } = message
    const text = textOf(message)
    // Some vendors refuse a text without a word in it, and with it all that comes later.
    const said = isBlank(text) ? "" : text
    switch (role) {
      case "system":
        return said === "" ? [] : [{ role, content: said }]
      case "user":
        return [{ role, content: partsOf(content)?.map((part) => userPart(part, load)) ?? text }]
      case "assistant": {
        // Nothing was said and nothing called: no vendor takes that.
        if (said === "" && toolCalls.length === 0) return []
        const results = resultsAfter(history, index)
        const calls = toolCalls.length === 0 ? {} : { tool_calls: toolCalls.map(callOf) }
        return [
          { role, content: said === "" ? null : said, ...calls },
          ...toolCalls.map(({ id, name }): ChatMessage => {
            const result = results.get(id) ?? { content: noResult }
            const answer = partsOf(result.content)?.map((part) => toolPart(part, load)) ?? textOf(result)
            return { role: "tool", tool_call_id: id, name, content: answer }
          }),
          // Some vendors take nothing of a user right behind a result.
          ...(toolCalls.length > 0 && isUnanswered(history, index) ? [{ role, content: noAnswer }] : [])
        ]
      }
      case "tool":
        // It stands behind its call.
        return []
    }
  })

const noResult = "No result of this call was recorded: the tool may have run or not."

const noAnswer = "[The turn ended here without an answer.]"

/** Whether the next one who says something after this answer is the user: its turn was cancelled, or failed. */
const isUnanswered = (history: ReadonlyArray<HistoryMessage>, index: number): boolean => {
  for (let next = index + 1; next < history.length; next++) {
    const message = history[next]
    if (message?.role === "user") return true
    // An answer without words stands in no request.
    if (message?.role === "assistant" && (!isBlank(textOf(message)) || message.toolCalls !== undefined)) return false
  }
  return false
}

const isBlank = (text: string): boolean => text.trim() === ""

/** Of a content that is more than text. */
const partsOf = (content: Message["content"]): ReadonlyArray<ContentPart> | undefined =>
  content === null || typeof content === "string" || content.every(({ type }) => type === "text")
    ? undefined
    : content.filter((part) => part.type !== "text" || !isBlank(part.text))

/** The first result of each call of an answer: those that come before anybody says something else. */
const resultsAfter = (history: ReadonlyArray<HistoryMessage>, index: number): ReadonlyMap<string, HistoryMessage> => {
  const results = new Map<string, HistoryMessage>()
  for (let next = index + 1; next < history.length; next++) {
    const message = history[next]
    if (message === undefined || message.role === "user" || message.role === "assistant") break
    const { role, toolCallId } = message
    if (role === "tool" && toolCallId !== undefined && !results.has(toolCallId)) results.set(toolCallId, message)
  }
  return results
}

const decodeArguments = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.JsonObject))

/** Some vendors take no arguments that are no JSON object; what the model wrote instead it can see in one. */
const callOf = ({ arguments: given, id, name }: NonNullable<Message["toolCalls"]>[number]): ToolCall => {
  const text = given.trim() === "" ? "{}" : given
  const isRight = Option.isSome(decodeArguments(text))
  return { id, type: "function", function: { name, arguments: isRight ? text : JSON.stringify({ invalid: given }) } }
}

const userPart = (part: ContentPart, load: (part: Medium) => Loaded): UserPart => {
  if (part.type === "text") return part
  const loaded = load(part)
  if ("missing" in loaded) return described(part, loaded.missing)
  const { base64 } = loaded
  const uri = `data:${part.mimeType};base64,${base64}`
  if (part.type === "image") return { type: "image_url", image_url: { url: uri } }
  const format = audioFormats.get(part.mimeType)
  if (format !== undefined) return { type: "input_audio", input_audio: { data: base64, format } }
  return { type: "file", file: { file_data: uri, filename: nameOf(part) } }
}

const toolPart = (part: ContentPart, load: (part: Medium) => Loaded): ToolPart => {
  if (part.type === "text") return part
  const loaded = load(part)
  if ("missing" in loaded) return described(part, loaded.missing)
  const { mimeType } = part
  return part.type === "image"
    ? { type: "image", image: loaded.base64, mimeType }
    : { type: "file", data: loaded.base64, mimeType }
}

const described = (part: Medium, why: string) => ({
  type: "text" as const,
  text: `[${nameOf(part)} (${part.mimeType}) was attached here; ${why}.]`
})

const audioFormats: ReadonlyMap<string, "mp3" | "wav"> = new Map([
  ["audio/mp3", "mp3"],
  ["audio/wav", "wav"]
])

const addressOf = (part: Medium): string => (part.type === "image" ? part.image : part.data)

/** Vendors want a name with a file. */
const nameOf = (part: Medium): string =>
  part.type === "image" ? "image" : (part.filename ?? `attachment.${part.mimeType.replace(/^.*\//, "")}`)

const isBlobId = Schema.is(BlobId)

const blobIdOf = (uri: string): Option.Option<BlobId> => {
  const id = uri.replace(/^blob:/, "")
  return isBlobId(id) ? Option.some(id) : Option.none()
}
