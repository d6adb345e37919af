import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { Instructions } from "../../src/application/conversation/Instructions.ts"
import { WorkspaceFiles } from "../../src/application/ports/files/WorkspaceFiles.ts"
import { MemoryStore } from "../../src/application/ports/storage/MemoryStore.ts"
import type { AgentDocument, Contributor } from "../../src/domain/agent/AgentConfig.ts"
import { MemoryId } from "../../src/domain/memory/Memory.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { WorkspacePath } from "../../src/domain/workspace/WorkspacePath.ts"
import { account } from "../conformance/Samples.ts"
import { agentWith, around, type ServerAtHand } from "./AgentsAtHand.ts"

/** What an agent with such a prompt is told, in a workspace made ready. */
const told = (
  systemPrompt: string | ReadonlyArray<Contributor>,
  {
    document = {},
    host = new Map<string, string>(),
    ready = () => Effect.void,
    servers = {}
  }: {
    readonly document?: Partial<AgentDocument>
    readonly host?: ReadonlyMap<string, string>
    readonly ready?: (workspace: OrganizationId) => Effect.Effect<void, unknown, WorkspaceFiles | MemoryStore>
    readonly servers?: Readonly<Record<string, ServerAtHand>>
  } = {}
) => {
  const prompt = typeof systemPrompt === "string" ? systemPrompt : { contributors: systemPrompt }
  const agent = agentWith({ ...document, systemPrompt: prompt }, servers)
  const { layer, log } = around(agent, host)
  return Effect.gen(function* () {
    const workspace = yield* account()
    yield* ready(workspace)
    return { text: yield* (yield* Instructions).of(workspace, agent), log }
  }).pipe(Effect.provide(Instructions.layer.pipe(Layer.provideMerge(layer))))
}

const saved = (files: Readonly<Record<string, string | Uint8Array>>) => (workspace: OrganizationId) =>
  Effect.flatMap(WorkspaceFiles, (store) =>
    store.commit(
      workspace,
      Object.entries(files).map(([path, content]) => ({
        path: WorkspacePath.make(path),
        content: Buffer.from(content),
        basedOn: undefined
      }))
    )
  )

const remembered =
  (...memories: ReadonlyArray<{ content: string; tags?: ReadonlyArray<string>; pinned?: boolean }>) =>
  (workspace: OrganizationId) =>
    Effect.flatMap(MemoryStore, (store) =>
      Effect.forEach(memories, ({ content, pinned = false, tags = [] }, index) =>
        Effect.andThen(
          TestClock.adjust(1_000),
          store.insert(workspace, MemoryId.make(`${index}`.padStart(21, "m")), { content, tags, metadata: { pinned } })
        )
      )
    )

const at = (priority: number) => ({ id: `at-${priority}`, priority })

describe("the system prompt of an agent", () => {
  it.effect("is its text, or nothing", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* told("You help.\n")).text, "You help.")
      assert.strictEqual((yield* told("")).text, "")
    })
  )

  it.effect("is what its contributors say by their priority; those that are not enabled say nothing", () =>
    Effect.gen(function* () {
      const { text } = yield* told([
        { ...at(20), type: "static", content: "Last." },
        { ...at(10), type: "static", content: "Off.", enabled: false },
        { ...at(-1), type: "static", content: "\nFirst.\n" },
        { ...at(5), type: "static", content: "  " },
        { ...at(7), type: "dynamic", source: "dateTime" }
      ])
      assert.strictEqual(text, "First.\n\nIt is Thursday, 1970-01-01 00:00 UTC.\n\nLast.")
    })
  )

  it.effect("has files of the agent, the workspace and this machine; none that is hidden, missing or no text", () =>
    Effect.gen(function* () {
      const { log, text } = yield* told(
        [
          {
            ...at(0),
            type: "file",
            files: [
              "rules.md",
              "../shared/more.md",
              "/srv/house.md",
              ".secret.md",
              "../../.env",
              "none.md",
              "picture.bin"
            ]
          }
        ],
        {
          host: new Map([["/srv/house.md", "House rules."]]),
          ready: saved({
            "agents/agent/rules.md": "Rules.\n",
            "agents/shared/more.md": "More.",
            "agents/agent/.secret.md": "hidden",
            ".env": "KEY=secret",
            "agents/agent/picture.bin": new Uint8Array([0, 1, 2])
          })
        }
      )
      assert.strictEqual(
        text,
        "## rules.md\n\nRules.\n\n## ../shared/more.md\n\nMore.\n\n## /srv/house.md\n\nHouse rules."
      )
      for (const file of [".secret.md", "../../.env", "none.md", "picture.bin"]) {
        assert.isTrue(
          log.some((line) => line.includes(`"file":"${file}"`)),
          file
        )
      }
    })
  )

  it.effect("has of files what its options say", () =>
    Effect.gen(function* () {
      const ready = saved({ "agents/agent/a.md": "0123456789", "agents/agent/b.md": "b" })
      const file = { ...at(0), type: "file" as const, files: ["a.md", "b.md"] }
      const options = { includeFilenames: false, separator: "\n---\n", maxFileSize: 4, other: "passed over" }
      const { text } = yield* told([{ ...file, options }], { ready })
      assert.strictEqual(text, "0123\n[Cut off here: the file has 10 bytes.]\n---\nb")
      const wrong = yield* told([{ ...file, options: { maxFileSize: "large" } }], { ready })
      assert.strictEqual(wrong.text, "## a.md\n\n0123456789\n\n## b.md\n\nb")
      assert.isTrue(wrong.log.some((line) => line.includes("options of a contributor are passed over")))
    })
  )

  it.effect("has memories, the pinned ones first, then the last changed", () =>
    Effect.gen(function* () {
      const ready = remembered(
        { content: "old" },
        { content: "pinned", pinned: true, tags: ["a", "b"] },
        { content: "newest", tags: ["c"] }
      )
      const memory = { ...at(0), type: "memory" as const }
      const title = "What you remember from earlier conversations:"
      assert.strictEqual((yield* told([memory], { ready })).text, `${title}\n- pinned [a, b]\n- newest [c]\n- old`)
      const options = { includeTags: false, includeTimestamps: true, pinnedOnly: true, limit: 20 }
      assert.strictEqual(
        (yield* told([{ ...memory, options }], { ready })).text,
        `${title}\n- 1970-01-01T00:00:02.000Z: pinned`
      )
      assert.strictEqual(
        (yield* told([{ ...memory, options: { limit: 1 } }], { ready })).text,
        `${title}\n- newest [c]`
      )
      assert.strictEqual((yield* told([memory])).text, "")
      const summary = { ...at(0), type: "dynamic" as const, source: "memorySummary" as const }
      assert.strictEqual(
        (yield* told([summary], { ready })).text,
        "You keep 3 memories of earlier conversations. The last changed ones:\n- newest [c]\n- pinned [a, b]\n- old"
      )
    })
  )

  it.effect("has no more memories than are good for it", () =>
    Effect.gen(function* () {
      const many = Array.from({ length: 40 }, (_, index) => ({ content: `${index} ${"x".repeat(9_000)}` }))
      const { text } = yield* told([{ ...at(0), type: "memory", options: { limit: 5_000 } }], {
        ready: remembered(...many)
      })
      assert.isBelow(text.length, 21_000)
      assert.match(text, /…\n- … and 31 more\.$/u)
    })
  )

  it.effect("names the resources that can be read, also while a server is away", () =>
    Effect.gen(function* () {
      const resources = { ...at(0), type: "dynamic" as const, source: "resources" as const }
      const { text } = yield* told([resources], {
        document: { internalResources: { enabled: true, resources: [{ type: "filesystem", paths: ["/srv"] }] } },
        host: new Map([["/srv/a.md", "# a"]]),
        servers: {
          away: "unreachable",
          docs: { resources: Effect.succeed([{ uri: "demo://1", name: "One", description: "the first" }]) }
        }
      })
      assert.strictEqual(
        text,
        "Resources that you can read by their addresses:\n- fs:///srv/a.md (a.md, text/markdown)\n- mcp:docs:demo://1 (One, the first)"
      )
      assert.strictEqual((yield* told([resources])).text, "")
    })
  )
})
