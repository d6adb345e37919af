import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { References } from "../../src/application/conversation/References.ts"
import { blobOwner } from "../../src/application/conversation/SessionsOfWorkspace.ts"
import { Blobs } from "../../src/application/ports/storage/Blobs.ts"
import { account } from "../conformance/Samples.ts"
import { agentWith, around, failed, session } from "./AgentsAtHand.ts"

const png = Buffer.from("\x89PNG\r\n\x1a\n and more", "latin1")

const files = new Map([
  ["/srv/a.md", "# a"],
  ["/srv/b.md.", "# with a dot"],
  ["/srv/my notes.md", "# notes"],
  ["/srv/c.bin", "\0\0"],
  ["/srv/long.txt", "x".repeat(300_000)],
  ...Array.from({ length: 30 }, (_, index): [string, string] => [`/srv/${index}.txt`, `text ${index}`])
])

const agent = agentWith(
  { internalResources: { enabled: true, resources: [{ type: "filesystem", paths: ["/srv"] }] } },
  {
    docs: {
      readResource: (uri) =>
        uri === "broken"
          ? Effect.fail(failed("docs", "deadline"))
          : Effect.succeed([
              { uri, text: `${uri} as text` },
              { uri, mimeType: "image/png", bytes: png }
            ])
    }
  }
)

const { layer } = around(agent, files)
const Live = References.layer.pipe(Layer.provideMerge(layer))

const partsOf = Effect.fnUntraced(function* (text: string) {
  const workspace = yield* account()
  return { workspace, parts: yield* (yield* References).parts(workspace, session, text) }
})

const text = (text: string) => ({ type: "text" as const, text })

describe("the resources that a message names", () => {
  it.effect("are read in their order; signs at the end may be the sentence's or the address's", () =>
    Effect.gen(function* () {
      const { parts } = yield* partsOf("Compare @fs:///srv/b.md. with (@fs:///srv/a.md), and @<fs:///srv/my notes.md>.")
      assert.deepStrictEqual(parts, [
        text("Resource fs:///srv/b.md.:\n# with a dot"),
        text("Resource fs:///srv/a.md:\n# a"),
        text("Resource fs:///srv/my notes.md:\n# notes")
      ])
      assert.deepStrictEqual((yield* partsOf("Hello @ann, mail bob@fs:///srv/a.md")).parts, [])
    }).pipe(Effect.provide(Live))
  )

  it.effect("of MCP servers are texts, and images as blobs of the session", () =>
    Effect.gen(function* () {
      const { parts, workspace } = yield* partsOf("@mcp:docs:demo://1")
      const blobs = yield* Blobs
      const [blob] = yield* blobs.list(workspace)
      assert.deepStrictEqual(parts, [
        text("Resource mcp:docs:demo://1:\ndemo://1 as text"),
        text(`Resource mcp:docs:demo://1: demo://1 (image/png, ${png.length} bytes):`),
        { type: "image", image: `blob:${blob?.id ?? "none"}`, mimeType: "image/png" }
      ])
      yield* blobs.release(workspace, blobOwner(session))
      assert.deepStrictEqual(yield* blobs.list(workspace), [])
    }).pipe(Effect.provide(Live))
  )

  it.effect("are told of when they cannot be read or shown", () =>
    Effect.gen(function* () {
      const { parts } = yield* partsOf("@fs:///etc/passwd @mcp:docs:broken @mcp:nobody:x @blob:none @fs:///srv/c.bin")
      const missing = "there is no such resource, or it may not be read."
      assert.deepStrictEqual(parts, [
        text(`Resource fs:///etc/passwd could not be read: ${missing}`),
        text("Resource mcp:docs:broken could not be read: docs: deadline."),
        text(`Resource mcp:nobody:x could not be read: ${missing}`),
        text(`Resource blob:none could not be read: ${missing}`),
        text(
          "Resource fs:///srv/c.bin: c.bin (application/octet-stream, 2 bytes). It is no text and of no type that can be shown."
        )
      ])
    }).pipe(Effect.provide(Live))
  )

  it.effect("are twenty at most, with so much text as a model can bear", () =>
    Effect.gen(function* () {
      const named = Array.from({ length: 25 }, (_, index) => `@fs:///srv/${index}.txt`).join(" ")
      const { parts } = yield* partsOf(named)
      assert.lengthOf(parts, 21)
      assert.deepStrictEqual(parts[19], text("Resource fs:///srv/19.txt:\ntext 19"))
      assert.deepStrictEqual(parts[20], text("5 more resources that the message names were not read."))
      const long = (yield* partsOf("@fs:///srv/long.txt @fs:///srv/a.md")).parts
      assert.isBelow(JSON.stringify(long).length, 200_500)
      assert.match(JSON.stringify(long[0]), /Cut off here: it has 300000 bytes/u)
      assert.match(JSON.stringify(long[1]), /Cut off here: it has 3 bytes/u)
    }).pipe(Effect.provide(Live))
  )
})
