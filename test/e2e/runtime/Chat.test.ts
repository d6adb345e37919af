import { spawn } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { compileCache } from "../../fixtures/ServiceProcess.ts"

const main = join(import.meta.dirname, "../../../src/main.ts")

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** The command `chat`, whose standard input is a pipe: each line is written when what it waits for was printed. */
const chat = (
  env: Readonly<Record<string, string>>,
  args: ReadonlyArray<string>,
  lines: ReadonlyArray<{ readonly after?: RegExp; readonly line: string }> = [],
  watch: (printed: string) => void = () => undefined
): Promise<Ended> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [main, "chat", ...args], {
      env: { PATH: process.env["PATH"] ?? "", NODE_COMPILE_CACHE: compileCache, ...env }
    })
    let stdout = ""
    let stderr = ""
    const left = [...lines]
    const look = () => {
      while (left[0] !== undefined && (left[0].after?.test(stdout + stderr) ?? true)) {
        child.stdin.write(`${left.shift()?.line}\n`)
      }
      if (left.length === 0) child.stdin.end()
    }
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text
      watch(stdout)
      look()
    })
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text
      look()
    })
    child.once("close", (code) => resolve({ code, stdout, stderr }))
    look()
  })

/** Decisions 11. */
describe("the command `chat`", () => {
  let runtime: RuntimeService
  let env: Readonly<Record<string, string>>
  let folder: string
  beforeAll(async () => {
    runtime = await startRuntime()
    env = { GATEWAY_URL: runtime.service.baseUrl, GATEWAY_KEY: runtime.keys.mine }
    folder = await mkdtemp(join(tmpdir(), "gateway-chat-"))
  }, 120_000)
  afterAll(async () => {
    await runtime.service.remove()
    await rm(folder, { recursive: true, force: true })
  })

  test("--message prints the answer and ends", async () => {
    expect(await chat(env, ["--message", "Hello there"])).toEqual({ code: 0, stdout: "Hello there\n", stderr: "" })
  }, 30_000)

  test("--json prints one line for a program", async () => {
    const { code, stderr, stdout } = await chat(env, ["--message", "Hello", "--json", "--session", "of-a-program"])
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    expect(stdout).toMatch(/^[^\n]+\n$/u)
    expect(JSON.parse(stdout)).toMatchObject({
      event: "response",
      text: "Hello",
      sessionId: "of-a-program",
      tokenUsage: { totalTokens: expect.any(Number) }
    })
    expect((await runtime.mine("GET", "/api/sessions/of-a-program")).status).toBe(200)
  }, 30_000)

  test("talks line by line, in one session until another is begun", async () => {
    const { code, stderr, stdout } = await chat(
      env,
      [],
      [
        { line: "First" },
        { line: "/help", after: /First\n/u },
        { line: "/bogus" },
        { line: "/new" },
        { line: "//slash" },
        { line: "/quit", after: /slash\n/u }
      ]
    )
    expect({ code, stdout }).toEqual({ code: 0, stdout: "First\n/slash\n" })
    expect(stderr).toContain("There is no command /bogus.")
    expect(stderr).toContain("/image <path>")
    const sessions = [...stderr.matchAll(/Session (\S+)\./gu)].map(([, id = ""]) => id)
    expect(new Set(sessions).size).toBe(2)
    for (const [at, said] of ["First", "/slash"].entries()) {
      const { body } = await runtime.mine("GET", `/api/sessions/${sessions[at]}/history`)
      expect(body).toMatchObject({
        history: [
          { role: "user", content: said },
          { role: "assistant", content: said }
        ]
      })
    }
  }, 30_000)

  test("asks before a tool runs, and takes the answer from the next line; shows what tools do", async () => {
    const saved = await runtime.mine("POST", "/api/agent/config", { yaml: careful })
    expect(saved.body).toMatchObject({ ok: true })
    const { code, stderr, stdout } = await chat(
      env,
      [],
      [
        { line: "save_memory about tea" },
        { line: "perhaps", after: /wants to use save_memory/u },
        { line: "y" },
        { line: "save_memory about coffee", after: /✓ save_memory/u },
        { line: "n", after: /wants to use save_memory[\s\S]*wants to use save_memory/u },
        { line: "/quit", after: /✗ save_memory/u }
      ]
    )
    expect(code).toBe(0)
    expect(stderr).toMatch(/→ save_memory \{[\s\S]*✓ save_memory[\s\S]*✗ save_memory/u)
    expect(stdout).not.toContain("\u001B")
    expect((await runtime.mine("GET", "/api/memory")).body).toMatchObject({
      count: 1,
      memories: [{ content: "save_memory about tea" }]
    })
  }, 60_000)

  test("with --message, where nobody can be asked, a tool that asks does not run", async () => {
    const { code, stderr } = await chat(env, ["--message", "save_memory about milk"])
    expect(code).toBe(0)
    expect(stderr).toContain("✗ save_memory")
    expect((await runtime.mine("GET", "/api/memory")).body).toMatchObject({ count: 1 })
  }, 30_000)

  test("attaches files by their paths, and says which it takes", async () => {
    await writeFile(join(folder, "a picture.png"), "no picture")
    const { code, stderr } = await chat(
      env,
      [],
      [
        { line: "/image notes.txt" },
        { line: `/image ${join(folder, "missing.png")}`, after: /ends in one of/u },
        { line: `/image ${join(folder, "a picture.png")}`, after: /Cannot read/u },
        { line: "What is it?", after: /Attached/u },
        { line: "/quit", after: /next message\.\n[^\n]+\n/u }
      ]
    )
    expect(code).toBe(0)
    // The service looks into it: it is none.
    expect(stderr.split("\n").at(-2)).toMatch(/image/iu)
  }, 30_000)

  test("a failure is one line and exit code 1", async () => {
    const failures = [
      [{ ...env, GATEWAY_KEY: "sk-gw-wrong" }, /^This API key is not valid\..+\n$/u],
      [{ ...env, GATEWAY_URL: "http://127.0.0.1:9" }, /^http:\/\/127\.0\.0\.1:9 cannot be reached: .+\n$/u],
      [{ ...env, GATEWAY_URL: "nonsense" }, /^GATEWAY_URL: .+\n$/u]
    ] as const
    for (const [wrong, line] of failures) {
      expect(await chat(wrong, ["--message", "Hello"])).toEqual({
        code: 1,
        stdout: "",
        stderr: expect.stringMatching(line)
      })
    }
    const { code, stderr } = await chat(env, ["--session", "a b", "--message", "Hello"])
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining("1 to 128 visible characters") })
  }, 60_000)

  test("a service that dies in the middle of an answer is waited for, and the answer comes whole", async () => {
    const said = "word ".repeat(400).trim()
    let dying: Promise<void> | undefined
    const { service } = runtime
    const ended = await chat(env, ["--message", said, "--session", "over-a-restart"], [], () => {
      dying ??= service.kill().then(() => service.start())
    })
    await dying
    expect(ended).toMatchObject({ code: 0, stdout: expect.stringContaining(said) })
    expect(ended.stdout.trimEnd().endsWith(said)).toBe(true)
  }, 120_000)
})

/** An agent that asks before it uses its tool. */
const careful = `agentCard:
  name: Careful
  description: A test.
  url: http://localhost
  version: 1.0.0
systemPrompt: Be careful.
internalTools: [save_memory]
toolConfirmation:
  mode: event-based
  timeout: 20000
llm:
  provider: service
  model: echo
  apiKey: ""
`
