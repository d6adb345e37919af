import { execFile } from "node:child_process"
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { afterEach, beforeEach, describe, expect, test } from "vitest"

const root = resolve(import.meta.dirname, "..")

/** The layer step of `npm run check`, as the command that the build runs. */
const checkLayers = (directory: string) =>
  new Promise<{ readonly code: number | null; readonly output: string }>((done) => {
    const child = execFile(
      process.execPath,
      [join(root, "test/tools/CheckLayers.ts"), directory],
      (_error, stdout, stderr) => done({ code: child.exitCode, output: stdout + stderr })
    )
  })

/** A tree in which every layer has an import that it may have. */
const sound = {
  "src/domain/note/Note.ts": `import { Schema } from "effect"
    import * as Hex from "effect/encoding/Hex"
    export const Note = Schema.Struct({ id: Schema.String })
    export const encode = Hex.encode`,
  "src/application/note/Notes.ts": `import * as Effect from "effect/Effect"
    import { Note } from "../../domain/note/Note.ts"
    export const notes = Effect.succeed([Note])`,
  "src/adapters/http/Notes.ts": `import { HttpRouter } from "effect/http"
    import { createServer } from "node:http"
    import { notes } from "../../application/note/Notes.ts"
    export const http = [HttpRouter, createServer, notes]`,
  "src/adapters/postgres/Notes.ts": `import { SqlClient } from "effect/sql"
    export const postgres = SqlClient`,
  "src/main.ts": `import { http } from "./adapters/http/Notes.ts"
    import { postgres } from "./adapters/postgres/Notes.ts"
    console.log(http, postgres)`
}

let directory: string

const seed = async (files: Readonly<Record<string, string>>) => {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true })
    await writeFile(join(directory, path), content)
  }
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "layer-rules-"))
  await cp(join(root, "package.json"), join(directory, "package.json"))
  await symlink(join(root, "node_modules"), join(directory, "node_modules"))
})

afterEach(() => rm(directory, { recursive: true }))

describe("the layer rules", () => {
  test("hold in this project, and were looked for in all of it", async () => {
    const sources = (await readdir(join(root, "src"), { recursive: true })).filter((file) => file.endsWith(".ts"))
    const { code, output } = await checkLayers(root)
    expect(output).toMatch(/^layers: \d+ modules, \d+ imports, 0 violations$/m)
    expect(code).toBe(0)
    const modules = Number(/(\d+) modules/.exec(output)?.[1])
    expect(sources.length).toBeGreaterThan(0)
    expect(modules).toBeGreaterThanOrEqual(sources.length)
  })

  test("let every permitted import pass", async () => {
    await seed(sound)
    const { code, output } = await checkLayers(directory)
    expect(output).toContain("0 violations")
    expect(code).toBe(0)
  })

  test.for<[rule: string, breach: string, file: string, content: string]>([
    [
      "domain-is-innermost",
      "the domain imports an adapter",
      "src/domain/note/Bad.ts",
      `export { postgres } from "../../adapters/postgres/Notes.ts"`
    ],
    [
      "domain-is-innermost",
      "the domain imports a type of the application",
      "src/domain/note/Bad.ts",
      `export type { notes } from "../../application/note/Notes.ts"`
    ],
    [
      "application-knows-no-adapter",
      "the application imports an adapter on demand",
      "src/application/note/Bad.ts",
      `export const late = () => import("../../adapters/postgres/Notes.ts")`
    ],
    [
      "inner-layers-import-only-stable-effect",
      "the application imports an unstable folder of Effect",
      "src/application/note/Bad.ts",
      `import type { SqlClient } from "effect/sql"
      export type Client = SqlClient.SqlClient`
    ],
    [
      "inner-layers-import-only-stable-effect",
      "the domain imports an unstable root module of Effect",
      "src/domain/note/Bad.ts",
      `export * from "effect/FileSystem"`
    ],
    [
      "inner-layers-import-only-stable-effect",
      "the application imports a library",
      "src/application/note/Bad.ts",
      `export { parse } from "yaml"`
    ],
    [
      "inner-layers-import-only-stable-effect",
      "the domain imports Node",
      "src/domain/note/Bad.ts",
      `export { randomUUID } from "node:crypto"`
    ],
    [
      "adapters-are-siblings",
      "an adapter imports its sibling",
      "src/adapters/http/Bad.ts",
      `export { postgres } from "../postgres/Notes.ts"`
    ],
    [
      "adapters-are-siblings",
      "a file beside the adapter folders imports one",
      "src/adapters/Bad.ts",
      `export { postgres } from "./postgres/Notes.ts"`
    ],
    ["main-is-outermost", "an adapter imports main", "src/adapters/http/Bad.ts", `import "../../main.ts"`],
    [
      "source-imports-no-test",
      "an adapter imports a test",
      "src/adapters/http/Bad.ts",
      `import "../../../test/Bad.ts"`
    ],
    [
      "no-undeclared-package",
      "the service imports a development dependency",
      "src/adapters/http/Bad.ts",
      `export * from "vitest"`
    ],
    [
      "no-cycle",
      "two files need each other's types",
      "src/domain/note/Bad.ts",
      `import type { Worse } from "./Worse.ts"
      export interface Bad { readonly worse: Worse }`
    ]
  ])("%s: refused when %s", async ([rule, , file, content]) => {
    await seed({
      ...sound,
      "test/Bad.ts": `export const fixture = 1`,
      "src/domain/note/Worse.ts": `import type { Bad } from "./Bad.ts"
        export interface Worse { readonly bad: Bad }`,
      [file]: content
    })
    const { code, output } = await checkLayers(directory)
    expect(output).toContain(`${rule}: ${file}`)
    expect(code).toBe(1)
  })

  test("a tree that was not read is refused", async () => {
    await mkdir(join(directory, "src"))
    const { code, output } = await checkLayers(directory)
    expect(output).toContain("nothing-read")
    expect(code).toBe(1)
  })

  test("the list of unstable root modules is that of the installed Effect", async () => {
    const types = join(root, "node_modules/effect/dist")
    const modules = (await readdir(types)).filter((file) => /^[A-Z]\w*\.d\.ts$/.test(file))
    const unstable: Array<string> = []
    for (const file of modules) {
      const source = await readFile(join(types, file), "utf8")
      if (!source.includes("@stability stable")) unstable.push(file.replace(".d.ts", ""))
    }
    const lint: unknown = JSON.parse(await readFile(join(root, ".oxlintrc.json"), "utf8"))
    expect(lint).toHaveProperty(
      ["overrides", 0, "rules", "no-restricted-imports", 1, "paths", 0, "importNames"],
      unstable
    )
  })
})
