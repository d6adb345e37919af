import { execFile } from "node:child_process"
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { afterAll, describe, expect, test } from "vitest"

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

const directories: Array<string> = []

/** A directory that is deleted after the tests, with the packages of this project and these files. */
const tree = async (files: Readonly<Record<string, string>>) => {
  const directory = await mkdtemp(join(tmpdir(), "layer-rules-"))
  directories.push(directory)
  await cp(join(root, "package.json"), join(directory, "package.json"))
  await symlink(join(root, "node_modules"), join(directory, "node_modules"))
  await mkdir(join(directory, "src"))
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true })
    await writeFile(join(directory, path), content)
  }
  return directory
}

afterAll(() => Promise.all(directories.map((directory) => rm(directory, { recursive: true }))))

const lazily = <A>(make: () => Promise<A>): (() => Promise<A>) => {
  let made: Promise<A> | undefined
  return () => (made ??= make())
}

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
    const { code, output } = await checkLayers(await tree(sound))
    expect(output).toContain("0 violations")
    expect(code).toBe(0)
  })

  const breaches = [
    {
      rule: "domain-is-innermost",
      breach: "the domain imports an adapter",
      file: "src/domain/note/Breach1.ts",
      content: `export { postgres } from "../../adapters/postgres/Notes.ts"`
    },
    {
      rule: "domain-is-innermost",
      breach: "the domain imports a type of the application",
      file: "src/domain/note/Breach2.ts",
      content: `export type { notes } from "../../application/note/Notes.ts"`
    },
    {
      rule: "application-knows-no-adapter",
      breach: "the application imports an adapter on demand",
      file: "src/application/note/Breach3.ts",
      content: `export const late = () => import("../../adapters/postgres/Notes.ts")`
    },
    {
      rule: "inner-layers-import-only-stable-effect",
      breach: "the application imports an unstable folder of Effect",
      file: "src/application/note/Breach4.ts",
      content: `import type { SqlClient } from "effect/sql"
      export type Client = SqlClient.SqlClient`
    },
    {
      rule: "inner-layers-import-only-stable-effect",
      breach: "the domain imports an unstable root module of Effect",
      file: "src/domain/note/Breach5.ts",
      content: `export * from "effect/FileSystem"`
    },
    {
      rule: "inner-layers-import-only-stable-effect",
      breach: "the application imports a library",
      file: "src/application/note/Breach6.ts",
      content: `export { parse } from "yaml"`
    },
    {
      rule: "inner-layers-import-only-stable-effect",
      breach: "the domain imports Node",
      file: "src/domain/note/Breach7.ts",
      content: `export { randomUUID } from "node:crypto"`
    },
    {
      rule: "adapters-are-siblings",
      breach: "an adapter imports its sibling",
      file: "src/adapters/http/Breach8.ts",
      content: `export { postgres } from "../postgres/Notes.ts"`
    },
    {
      rule: "adapters-are-siblings",
      breach: "a file beside the adapter folders imports one",
      file: "src/adapters/Breach9.ts",
      content: `export { postgres } from "./postgres/Notes.ts"`
    },
    {
      rule: "main-is-outermost",
      breach: "an adapter imports main",
      file: "src/adapters/http/Breach10.ts",
      content: `import "../../main.ts"`
    },
    {
      rule: "source-imports-no-test",
      breach: "an adapter imports a test",
      file: "src/adapters/http/Breach11.ts",
      content: `import "../../../test/Bad.ts"`
    },
    {
      rule: "no-undeclared-package",
      breach: "the service imports a development dependency",
      file: "src/adapters/http/Breach12.ts",
      content: `export * from "vitest"`
    },
    {
      rule: "no-cycle",
      breach: "two files need each other's types",
      file: "src/domain/note/Bad.ts",
      content: `import type { Worse } from "./Worse.ts"
      export interface Bad { readonly worse: Worse }`
    }
  ]

  /** What is said of a tree with all of them. */
  const refused = lazily(async () => {
    const directory = await tree({
      ...sound,
      ...Object.fromEntries(breaches.map(({ content, file }) => [file, content])),
      "test/Bad.ts": `export const fixture = 1`,
      "src/domain/note/Worse.ts": `import type { Bad } from "./Bad.ts"
        export interface Worse { readonly bad: Bad }`
    })
    return checkLayers(directory)
  })

  test.for(breaches)("$rule: refused when $breach", async ({ file, rule }) => {
    const { code, output } = await refused()
    expect(output.split("\n").filter((line) => line.includes(`: ${file} -> `))).toEqual([
      expect.stringMatching(`^${rule}: `)
    ])
    expect(code).toBe(1)
  })

  test("a tree that was not read is refused", async () => {
    const { code, output } = await checkLayers(await tree({}))
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
