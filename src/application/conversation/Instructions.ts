import { Clock, Context, Effect, Layer, Option, Schema } from "effect"
import type { Contributor } from "../../domain/agent/AgentConfig.ts"
import type { Memory } from "../../domain/memory/Memory.ts"
import { isPinned } from "../../domain/memory/Memory.ts"
import { absolutePath, joinedPath, pathBelow } from "../../domain/resource/FileRules.ts"
import type { Resource } from "../../domain/resource/Resource.ts"
import { partOfBytes } from "../../domain/resource/ResourceContent.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import type { RunningAgent } from "../agent/RunningAgents.ts"
import { HostFiles } from "../ports/files/HostFiles.ts"
import { WorkspaceFiles } from "../ports/files/WorkspaceFiles.ts"
import { MemoryStore } from "../ports/storage/MemoryStore.ts"
import { workspaceTree } from "../resource/FileTree.ts"
import { Resources } from "../resource/Resources.ts"

/** The system prompts of agents (decisions 4): what their contributors say, lower priorities first. */
export class Instructions extends Context.Service<
  Instructions,
  {
    /** As it is now; empty when nobody says anything. What cannot be read is left out, and the log says so. */
    readonly of: (workspace: OrganizationId, agent: RunningAgent) => Effect.Effect<string>
  }
>()("gateway/conversation/Instructions") {
  static readonly layer = Layer.effect(
    Instructions,
    Effect.gen(function* () {
      const files = yield* WorkspaceFiles
      const host = yield* HostFiles
      const memories = yield* MemoryStore
      const resources = yield* Resources

      /** From the workspace, where a relative path begins at the agent's directory, or from this machine. */
      const fileAt = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        { file }: RunningAgent,
        named: string,
        most: number
      ) {
        const home = yield* files.root(workspace)
        const path = absolutePath(absolutePath(joinedPath(home, file.path), ".."), named)
        const tree = pathBelow(home, path) === undefined ? host : workspaceTree(files, workspace, home)
        const found = yield* tree.read(path, "", most)
        return Option.flatMap(found, ({ bytes, size }) => {
          const part = partOfBytes({ uri: path, name: path, mimeType: undefined, bytes, size })
          return part._tag === "Text" ? Option.some(part) : Option.none()
        })
      })

      const filesSay = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        agent: RunningAgent,
        { files: named, id, options }: Extract<Contributor, { readonly type: "file" }>
      ) {
        const {
          includeFilenames = true,
          maxFileSize = 100_000,
          separator = "\n\n"
        } = yield* optionsOf(FileOptions, id, options)
        const texts: Array<string> = []
        for (const name of named.slice(0, mostFiles)) {
          const found = yield* fileAt(workspace, agent, name, Math.min(maxFileSize, mostFileBytes))
          if (Option.isNone(found)) {
            yield* Effect.logWarning("A file of a system prompt is missing, or is no text.", {
              agent: agent.file.id,
              contributor: id,
              file: name
            })
            continue
          }
          const { isTruncated, size, text } = found.value
          const ending = isTruncated ? `\n[Cut off here: the file has ${size} bytes.]` : ""
          texts.push(`${includeFilenames ? `## ${name}\n\n` : ""}${text.trim()}${ending}`)
        }
        return texts.join(separator)
      })

      const memoriesSay = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        { id, options }: Pick<Extract<Contributor, { readonly type: "memory" }>, "id" | "options">
      ) {
        const given = yield* optionsOf(MemoryOptions, id, options)
        const { includeTags = true, includeTimestamps = false, limit = 50, pinnedOnly = false } = given
        const filter = { tags: [], source: undefined, pinned: pinnedOnly ? true : undefined }
        const found = yield* memories.list(workspace, filter, { limit: Math.min(limit, mostMemories), offset: 0 })
        // The list has the last changed first; among these the pinned ones matter most.
        const sorted = [...found.filter(pinned), ...found.filter((memory) => !pinned(memory))]
        const lines = sorted.map((memory) => lineOf(memory, { includeTags, includeTimestamps }))
        return listed("What you remember from earlier conversations:", lines, found.length)
      })

      const summary = Effect.fnUntraced(function* (workspace: OrganizationId) {
        const filter = { tags: [], source: undefined, pinned: undefined }
        const count = yield* memories.count(workspace, filter)
        const found = yield* memories.list(workspace, filter, { limit: 10, offset: 0 })
        const lines = found.map((memory) => lineOf(memory, { includeTags: true, includeTimestamps: false }))
        return listed(`You keep ${count} memories of earlier conversations. The last changed ones:`, lines, count)
      })

      const says = (
        workspace: OrganizationId,
        agent: RunningAgent,
        contributor: Contributor
      ): Effect.Effect<string> => {
        switch (contributor.type) {
          case "static":
            return Effect.succeed(contributor.content)
          case "file":
            return filesSay(workspace, agent, contributor)
          case "memory":
            return memoriesSay(workspace, contributor)
          case "dynamic":
            switch (contributor.source) {
              case "dateTime":
                return Effect.map(Clock.currentTimeMillis, nowIs)
              case "memorySummary":
                return summary(workspace)
              case "resources":
                return Effect.map(resources.list(workspace), (found) =>
                  listed("Resources that you can read by their addresses:", found.map(resourceLine), found.length)
                )
            }
        }
      }

      return Instructions.of({
        of: Effect.fn("Instructions.of")(function* (workspace, agent) {
          const said = yield* Effect.forEach(
            agent.config.contributors,
            (contributor) => says(workspace, agent, contributor),
            { concurrency: "unbounded" }
          )
          return said
            .map((text) => text.trim())
            .filter((text) => text !== "")
            .join("\n\n")
        })
      })
    })
  )
}

/** Files of one contributor, and bytes of one of them, whatever its options say. */
const mostFiles = 50
const mostFileBytes = 1_000_000

/** Whatever its options say. */
const mostMemories = 1_000

/** Characters of a list, and of one of its items. */
const mostList = 20_000
const mostItem = 2_000

const PositiveInt = Schema.Int.check(Schema.isGreaterThan(0))

/** What the free-form `options` of a contributor may say; other keys are passed over. */
const FileOptions = Schema.Struct({
  /** The name of each file above its text. */
  includeFilenames: Schema.optionalKey(Schema.Boolean),
  /** Between two files. */
  separator: Schema.optionalKey(Schema.String),
  /** Bytes of each file; of a larger one its beginning. */
  maxFileSize: Schema.optionalKey(PositiveInt)
})

const MemoryOptions = Schema.Struct({
  includeTags: Schema.optionalKey(Schema.Boolean),
  includeTimestamps: Schema.optionalKey(Schema.Boolean),
  limit: Schema.optionalKey(PositiveInt),
  pinnedOnly: Schema.optionalKey(Schema.Boolean)
})

/** Options that are not right are as if they were not there. */
const optionsOf = <A extends object, I>(
  schema: Schema.Codec<A, I>,
  contributor: string,
  options: unknown
): Effect.Effect<Partial<A>> =>
  options === undefined
    ? Effect.succeed({})
    : Schema.decodeUnknownEffect(schema)(options).pipe(
        Effect.catch(({ message }) =>
          Effect.as(Effect.logWarning("The options of a contributor are passed over.", { contributor, message }), {})
        )
      )

/** By the minute: a prompt that changes with every call is cached by no vendor. */
const nowIs = (millis: number): string => {
  const now = new Date(millis)
  const day = now.toLocaleDateString("en-US", { weekday: "long", timeZone: "UTC" })
  return `It is ${day}, ${now.toISOString().slice(0, 16).replace("T", " ")} UTC.`
}

const pinned = ({ metadata }: Memory): boolean => isPinned(metadata)

const lineOf = (
  { content, tags, updatedAt }: Memory,
  { includeTags, includeTimestamps }: { readonly includeTags: boolean; readonly includeTimestamps: boolean }
): string => {
  const when = includeTimestamps ? `${new Date(updatedAt).toISOString()}: ` : ""
  return `${when}${content}${includeTags && tags.length > 0 ? ` [${tags.join(", ")}]` : ""}`
}

const resourceLine = ({ description, mimeType, name, uri }: Resource): string => {
  const about = [name, mimeType, description].filter((text) => text !== undefined && text !== "")
  return about.length === 0 ? uri : `${uri} (${about.join(", ")})`
}

/** As many of the items as fit; nothing without any. `count` is how many there are. */
const listed = (title: string, items: ReadonlyArray<string>, count: number): string => {
  const lines: Array<string> = []
  let room = mostList
  for (const item of items) {
    const line = `- ${item.length > mostItem ? `${item.slice(0, mostItem).toWellFormed()}…` : item}`
    if (line.length > room) break
    room -= line.length
    lines.push(line)
  }
  if (lines.length === 0) return ""
  const left = count - lines.length
  return [title, ...lines, ...(left > 0 ? [`- … and ${left} more.`] : [])].join("\n")
}
