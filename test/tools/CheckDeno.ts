import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"

/** `npm run check:deno`: the service, embedded, starts under Deno with no change, completes one chat and streams one. */
const root = resolve(import.meta.dirname, "../..")

/** Includes the download of Deno on a machine that has never run it. */
const patience = AbortSignal.timeout(240_000)

const freePort = async () => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  await new Promise((closed) => server.close(closed))
  if (address === null || typeof address === "string") throw new Error("no port was given")
  return address.port
}

const { DATABASE_URL: _, ...environment } = process.env
const dataDir = await mkdtemp(join(tmpdir(), "check-deno-"))
const port = await freePort()
const service = spawn("npx", ["--yes", "deno@2.9.6", "run", "-A", "src/main.ts", "serve"], {
  cwd: root,
  env: { ...environment, PORT: String(port), DATA_DIR: dataDir },
  // A group of its own, so that ending it reaches Deno behind npx.
  detached: true,
  stdio: ["ignore", "pipe", "pipe"]
})

let output = ""
for (const stream of [service.stdout, service.stderr]) {
  stream.setEncoding("utf8").on("data", (text: string) => {
    output += text
  })
}

/** Asks until there is an answer; the service that ends before is an error at once. */
const until = async <A>(what: string, ask: () => Promise<A | undefined> | A | undefined): Promise<A> => {
  while (!patience.aborted) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (service.exitCode !== null) throw new Error(`the service ended (${service.exitCode}) before ${what}`)
    await sleep(100)
  }
  throw new Error(`no ${what} in time`)
}

/** Ends the group and waits until nobody is left in it: npx goes at once, Deno first drains. */
const endService = async () => {
  const group = service.pid
  if (group === undefined) return
  const signal = (name: NodeJS.Signals | 0) => {
    try {
      return process.kill(-group, name)
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ESRCH") return false
      throw error
    }
  }
  const deadline = Date.now() + 45_000
  for (let alive = signal("SIGTERM"); alive; alive = signal(Date.now() < deadline ? 0 : "SIGKILL")) await sleep(100)
}

try {
  const key = await until("the API key was printed", () => /sk-gw-[0-9A-Za-z]+/.exec(output)?.[0])
  await until("the service was ready", () =>
    fetch(`http://127.0.0.1:${port}/health/ready`).then(
      (response) => (response.ok ? true : undefined),
      () => undefined
    )
  )
  const complete = async (request: object) => {
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "echo", messages: [{ role: "user", content: "Hello from Deno" }], ...request }),
      signal: patience
    })
    const body = await response.text()
    if (response.status !== 200 || !/"content":\s*"[^"]/.test(body)) throw new Error(`${response.status}: ${body}`)
    return body
  }
  await complete({})
  const events = await complete({ stream: true })
  if (!/^data: \{[^]*\}\n\ndata: \[DONE\]\n\n$/.test(events)) throw new Error(`no event stream: ${events}`)
  console.log("ok deno: the service completed a chat, and streamed one")
} catch (error) {
  console.error(output)
  console.error("FAILED deno:", error)
  process.exitCode = 1
} finally {
  await endService()
  await rm(dataDir, { recursive: true, force: true })
}
