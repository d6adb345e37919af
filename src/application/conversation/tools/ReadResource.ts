import { Effect, Schema } from "effect"
import type { ContentPart } from "../../../domain/conversation/Message.ts"
import { Resources } from "../../resource/Resources.ts"
import { KeptMedia } from "../KeptMedia.ts"
import { internalTool } from "./InternalTool.ts"
import { done, failed } from "./Outcomes.ts"

const Parameters = Schema.Struct({
  uri: Schema.NonEmptyString.check(Schema.isMaxLength(4_096)).annotate({
    description: "Its whole address, such as fs:///…, blob:… or mcp:<server>:<resource>."
  })
})

export const readResource = Effect.gen(function* () {
  const resources = yield* Resources
  const kept = yield* KeptMedia

  return internalTool({
    name: "read_resource",
    description: "Reads a resource by its address: a file, an attachment, or what an MCP server offers.",
    parameters: Parameters,
    isIdempotent: true,
    run: Effect.fnUntraced(
      function* ({ uri }, { turn }) {
        const { parts } = yield* resources.read(turn.workspace, uri)
        const texts: Array<string> = []
        const media: Array<ContentPart> = []
        for (const part of parts) {
          if (part._tag === "Text") {
            texts.push(part.isTruncated ? `${part.text}\n[Cut off here: it has ${part.size} bytes.]` : part.text)
            continue
          }
          const { bytes, isTruncated, mimeType, name: filename, size } = part
          const shown = isTruncated
            ? undefined
            : yield* kept.part(turn.workspace, turn.session, { bytes, mimeType, filename })
          if (shown !== undefined) media.push(shown)
          texts.push(`[Binary file: ${filename} (${mimeType}, ${size} bytes)]`)
        }
        return done(texts.join("\n\n"), media)
      },
      Effect.catchTags({
        ResourceNotFound: ({ uri }) => Effect.succeed(failed(`There is no resource ${JSON.stringify(uri)}.`)),
        McpFailed: ({ message }) => Effect.succeed(failed(message))
      })
    )
  })
})
