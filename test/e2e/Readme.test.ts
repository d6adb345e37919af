import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, describe, expect, type TestContext, test } from "vitest"
import { parse } from "yaml"
import { drivers } from "../../src/adapters/vendors/drivers/Drivers.ts"
import { ownKeyForms } from "../../src/adapters/vendors/drivers/OwnKeys.ts"
import { freePort, freshDatabase } from "../fixtures/Postgres.ts"
import { prepareService, setUpAccount } from "../fixtures/ServiceProcess.ts"

/**
 * README.md does what it says: every block of it is run as it stands, in order, against the service that its first
 * block starts. What may differ is the port, the data folder and the key. A comment `<!-- test: … -->` above a block
 * says how it is run where that is not plain from its language; a `text` block is what the block before it prints, with
 * … for anything. A block that fits none of the `runners` fails.
 */
const root = resolve(import.meta.dirname, "../..")
const readme = await readFile(join(root, "README.md"), "utf8")

interface Block {
  readonly line: number
  readonly language: string
  readonly marker: string | undefined
  readonly code: string
  readonly prints: string | undefined
}

const blocksOf = (markdown: string): ReadonlyArray<Block> => {
  const fence = /^(?:<!-- test: (?<marker>[^\n]*?) -->\n)?```(?<language>\w*)\n(?<code>.*?)^```$/gmsu
  const blocks: Array<Block> = []
  for (const { groups = {}, index } of markdown.matchAll(fence)) {
    const { code = "", language = "", marker } = groups
    const before = blocks.at(-1)
    if (language === "text" && marker === undefined && before !== undefined && before.prints === undefined) {
      blocks.splice(-1, 1, { ...before, prints: code })
    } else {
      blocks.push({ line: markdown.slice(0, index).split("\n").length, language, marker, code, prints: undefined })
    }
  }
  return blocks
}

const folder = await mkdtemp(join(tmpdir(), "gateway-readme-"))
const port = await freePort()

/** Of the caller's environment only what every program needs: no key of a provider, no address of a database. */
const baseEnv = { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? folder }
const serviceEnv = { ...baseEnv, PORT: `${port}`, DATA_DIR: join(folder, "data"), DRAIN_DELAY: "0s" }

const withPort = (code: string): string => code.replaceAll("localhost:8080", `localhost:${port}`)

/** What a program prints; whatever it says on the other channel stands in the error when it fails. */
const run = (command: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>>): Promise<string> =>
  new Promise((done, failed) => {
    execFile(command, args, { cwd: root, env, timeout: 100_000 }, (error, stdout, stderr) => {
      if (error === null) done(stdout)
      else failed(new Error(`${command} failed:\n${stdout}\n${stderr}`, { cause: error }))
    })
  })

/** The service, started by the commands of README.md. A group of its own: npm does not pass signals on. */
const start = async (command: string) => {
  const child = spawn("sh", ["-c", command], { cwd: root, env: serviceEnv, detached: true })
  let output = ""
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => void (output += text))
  }
  const closed = once(child, "close")
  const stop = async () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) process.kill(-child.pid)
    await closed
  }
  const deadline = Date.now() + 60_000
  for (;;) {
    const key = /sk-gw-[0-9A-Za-z]{49}/u.exec(output)?.[0]
    const ready = await fetch(`http://localhost:${port}/health/ready`).then(
      ({ ok }) => ok,
      () => false
    )
    if (key !== undefined && ready) return { key, stop }
    if (child.exitCode !== null || Date.now() > deadline) {
      await stop()
      throw new Error(`the service did not start:\n${output}`)
    }
    await sleep(50)
  }
}

let service: Awaited<ReturnType<typeof start>> | undefined

const running = () => service ?? expect.fail("the block that starts the service comes first")

afterAll(async () => {
  await service?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** What the blocks so far have exported, for those that follow: a reader types them all into one terminal. */
let exported = ""

const shell = async (code: string): Promise<string> => {
  const typed = withPort(code).replaceAll("sk-gw-...", running().key)
  const printed = await run("sh", ["-euc", `${exported}${typed}`], serviceEnv)
  exported += typed
    .split("\n")
    .filter((line) => line.startsWith("export "))
    .map((line) => `${line}\n`)
    .join("")
  return printed
}

const javascript = (code: string, env: Readonly<Record<string, string>>) =>
  run(process.execPath, ["--input-type=module", "--eval", withPort(code)], { ...baseEnv, ...env })

const succeeds = (command: string, args: ReadonlyArray<string>): Promise<boolean> =>
  run(command, args, baseEnv).then(
    () => true,
    () => false
  )

/** What a block prints, or undefined where it could only be checked. By language and marker. */
const runners: Readonly<Record<string, (code: string, context: TestContext) => Promise<string | undefined>>> = {
  "sh, start": async (code) => {
    expect(code).toBe("npm ci\nnpm start\n")
    service = await start("npm start")
    return undefined
  },

  sh: shell,

  js: (code) => javascript(code, { GATEWAY_KEY: running().key }),

  /** Its syntax only, where the package `openai` of Python is not installed. */
  "python, python": async (code, context) => {
    if (!(await succeeds("python3", ["--version"]))) return context.skip("there is no python3")
    if (await succeeds("python3", ["-c", "import openai"])) {
      return await run("python3", ["-c", withPort(code)], { ...baseEnv, GATEWAY_KEY: running().key })
    }
    await run("python3", ["-c", "import ast, sys; ast.parse(sys.argv[1])", code], baseEnv)
    return undefined
  },

  /** The models file, as the command line sees it. */
  yaml: async (code) => {
    const file = join(folder, "models.yml")
    await writeFile(file, code)
    return await run(process.execPath, ["src/main.ts", "models"], { ...serviceEnv, MODELS_FILE: file })
  },

  /** Commands on the embedded store, once nobody has it open. */
  "sh, stopped": async (code) => {
    await running().stop()
    return await shell(code)
  },

  /** The answer to a request without a key. */
  "json, 401": async (code) => {
    const response = await fetch(`http://localhost:${port}/v1/models`)
    expect(response.status).toBe(401)
    const expected: unknown = JSON.parse(code, (_, value: unknown) => (value === "…" ? expect.any(String) : value))
    expect(await response.json()).toEqual(expected)
    return undefined
  },

  /** A worker on the database of a service. */
  "js, worker": async (code) => {
    const databaseUrl = await freshDatabase("readme")
    const beside = await prepareService({ databaseUrl })
    try {
      const { key } = await setUpAccount(beside, { org: "acme", credit: 1 })
      return await javascript(code, { DATABASE_URL: databaseUrl, GATEWAY_KEY: key })
    } finally {
      await beside.remove()
    }
  },

  /** Docker is not to be had in a test. */
  "sh, syntax": async (code) => {
    expect(code).toContain("docker compose")
    await run("sh", ["-nc", code], baseEnv)
    return undefined
  }
}

describe("README.md", () => {
  const blocks = blocksOf(readme)

  test("every fence of it is a block of the tests below", () => {
    const outputs = blocks.filter(({ prints }) => prints !== undefined).length
    expect((blocks.length + outputs) * 2).toBe(readme.match(/^\s*(?:```|~~~)/gmu)?.length)
    expect(blocks.length).toBeGreaterThan(10)
  })

  for (const { code, language, line, marker, prints } of blocks) {
    const kind = marker === undefined ? language : `${language}, ${marker}`
    test(`line ${line}: ${kind}`, { timeout: 120_000 }, async (context) => {
      const runner = runners[kind] ?? expect.fail(`nothing here runs a block of the kind "${kind}"`)
      const printed = await runner(code, context)
      if (prints === undefined) return
      if (printed !== undefined) expect(printed).toMatch(likeIt(prints))
      else expect(kind).toBe("python, python")
    })
  }

  test("its tables have every variable that the service reads", async () => {
    const settings = await readFile(join(root, "src/adapters/config/Settings.ts"), "utf8")
    const own = [...settings.matchAll(/"([A-Z][A-Z0-9_]{3,})"/gu)].map(([, name]) => name)
    const vendors = drivers.flatMap(({ baseUrlVariable, keyVariable }) => [keyVariable, baseUrlVariable])
    expect(own.length).toBeGreaterThan(8)
    const tables = readme.match(/^\|.*$/gmu)?.join("\n")
    expect([...own, ...vendors].filter((name) => tables?.includes(`\`${name}\``) !== true)).toEqual([])
    const addresses = ownKeyForms.map(({ driver }) => driver.baseUrlVariable)
    expect(addresses.filter((name) => !readme.includes(`\`${name}\``))).toEqual([])
  })

  test("its links lead somewhere", () => {
    const targets = [...readme.matchAll(/\]\(([^)]+)\)/gu)].map(([, target = ""]) => target)
    const headings = [...readme.matchAll(/^#+ (.+)$/gmu)].map(
      ([, title = ""]) => `#${title.toLowerCase().replaceAll(" ", "-")}`
    )
    const files = targets.filter((target) => !/^(?:https?:|#)/u.test(target))
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([])
    expect(targets.filter((target) => target.startsWith("#") && !headings.includes(target))).toEqual([])
  })
})

const literally = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/gu, "\\$&")

/** … stands for anything, and what surrounds the whole does not count. */
const likeIt = (text: string): RegExp => new RegExp(`^${text.trim().split("…").map(literally).join(".*?")}\\s*$`, "su")

describe("docker", () => {
  const docker = (file: string) => readFile(join(root, "docker", file), "utf8")

  test("nginx takes its configuration", async (context) => {
    const nginx = ["/usr/sbin/nginx", "/usr/local/bin/nginx", "/opt/homebrew/bin/nginx"].find(existsSync)
    if (nginx === undefined) return context.skip("nginx is not installed")
    const place = join(folder, "nginx")
    await mkdir(place)
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map((kind) => `${kind}_temp_path ${place}/${kind};`)
      .join(" ")
    // The names of the replicas are known inside the network of the compose file only.
    const configuration = (await docker("nginx.conf"))
      .replaceAll(/server gateway-\d:8080;/gu, "server 127.0.0.1:8080;")
      .replaceAll("/var/log/nginx", place)
      .replace("http {", `http { ${temporary}`)
    expect(configuration).toContain("server 127.0.0.1:8080;")
    const file = join(place, "nginx.conf")
    await writeFile(file, configuration)
    await run(
      nginx,
      ["-t", "-q", "-p", place, "-e", join(place, "error.log"), "-c", file, "-g", `pid ${place}/pid;`],
      baseEnv
    )
  })

  test("nginx and compose agree about the replicas", async () => {
    const compose: unknown = parse(await docker("compose.yml"), { merge: true })
    const upstreams = [...(await docker("nginx.conf")).matchAll(/server (\S+):8080;/gu)].map(([, name = ""]) => name)
    expect(upstreams).toEqual(["gateway-1", "gateway-2"])
    for (const name of upstreams) {
      expect(compose).toHaveProperty(["services", name, "build"], { context: "..", dockerfile: "docker/Dockerfile" })
      expect(compose).toHaveProperty(["services", "nginx", "depends_on", name, "condition"], "service_healthy")
    }
  })

  test("the image takes nothing that its build context does not have", async () => {
    const ignore = (await readFile(join(root, ".dockerignore"), "utf8")).split("\n")
    const copied = [...(await docker("Dockerfile")).matchAll(/^COPY (?!--)(.+) \S+$/gmu)].flatMap(([, sources = ""]) =>
      sources.split(" ")
    )
    expect(copied).toContain("src")
    expect(copied.filter((source) => !ignore.includes(`!${source}`) || !existsSync(join(root, source)))).toEqual([])
  })
})
