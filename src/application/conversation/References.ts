import { Context, Effect, Layer } from "effect"
import type { ContentPart } from "../../domain/conversation/Message.ts"
import { referencesIn } from "../../domain/conversation/Reference.ts"
import type { SessionId } from "../../domain/conversation/Session.ts"
import type { ResourcePart } from "../../domain/resource/ResourceContent.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { Resources } from "../resource/Resources.ts"
import { KeptMedia } from "./KeptMedia.ts"

/** Resources that a message names as `@<uri>` (decisions 8). A bare `@word` is nothing but text. */
export class References extends Context.Service<
  References,
  {
    /**
     * What they have now, in the order of the message: texts as text parts that begin with their address, images, PDF
     * and audio as blobs of the session. Of one that cannot be read, a text part says so. Bounded as a whole. Empty for
     * a message that names none.
     */
    readonly parts: (
      workspace: OrganizationId,
      session: SessionId,
      text: string
    ) => Effect.Effect<ReadonlyArray<ContentPart>>
  }
>()("gateway/conversation/References") {
  static readonly layer = Layer.effect(
    References,
    Effect.gen(function* () {
      const resources = yield* Resources
      const kept = yield* KeptMedia

      /** By the first of the addresses that somebody may have meant which is there. */
      const read = (workspace: OrganizationId, [address, ...others]: Addresses): Effect.Effect<Read> =>
        resources.read(workspace, address).pipe(
          Effect.map(({ parts }): Read => ({ address, parts })),
          Effect.catchTags({
            ResourceNotFound: () => {
              const [next, ...rest] = others
              return next === undefined
                ? Effect.succeed<Read>({ address, missing: "there is no such resource, or it may not be read" })
                : Effect.map(read(workspace, [next, ...rest]), (found) =>
                    "missing" in found ? { ...found, address } : found
                  )
            },
            McpFailed: ({ message }) => Effect.succeed<Read>({ address, missing: message })
          })
        )

      const parts = Effect.fn("References.parts")(function* (
        workspace: OrganizationId,
        session: SessionId,
        text: string
      ) {
        const named = referencesIn(text)
        const found = yield* Effect.forEach(named.slice(0, most), (addresses) => read(workspace, addresses), {
          concurrency: 4
        })
        const made: Array<ContentPart> = []
        let room = mostText
        const say = (text: string) => void made.push({ type: "text", text })
        const show = Effect.fnUntraced(function* (address: string, part: ResourcePart) {
          if (part._tag === "Text") {
            const taken = part.text.slice(0, room).toWellFormed()
            const isWhole = taken.length === part.text.length && !part.isTruncated
            room -= taken.length
            say(`Resource ${address}:\n${taken}${isWhole ? "" : `\n[Cut off here: it has ${part.size} bytes.]`}`)
            return
          }
          const { bytes, isTruncated, mimeType, name: filename, size } = part
          const shown = isTruncated ? undefined : yield* kept.part(workspace, session, { bytes, mimeType, filename })
          const what = `Resource ${address}: ${filename} (${mimeType}, ${size} bytes)`
          if (shown === undefined) return say(`${what}. It is no text and of no type that can be shown.`)
          say(`${what}:`)
          made.push(shown)
        })
        for (const { address, ...each } of found) {
          if ("missing" in each) say(`Resource ${address} could not be read: ${each.missing}.`)
          else yield* Effect.forEach(each.parts, (part) => show(address, part), { discard: true })
        }
        if (named.length > most) say(`${named.length - most} more resources that the message names were not read.`)
        return made
      })

      return References.of({ parts })
    })
  ).pipe(Layer.provide(KeptMedia.layer))
}

type Addresses = ReturnType<typeof referencesIn>[number]

type Read = { readonly address: string } & (
  | { readonly parts: ReadonlyArray<ResourcePart> }
  | { readonly missing: string }
)

/** Resources of one message. */
const most = 20

/** Characters of all their texts. */
const mostText = 200_000
