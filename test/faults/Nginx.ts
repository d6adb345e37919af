import { Schema } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { freePort } from "../fixtures/Postgres.ts"
import type { ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { get } from "./ChatClient.ts"

/** nginx in front of replicas, with the configuration that the project ships. */
export interface Nginx {
  readonly baseUrl: string
  /** The replicas, as `host:port`, that each request was sent to, by its id. */
  readonly sentTo: () => Promise<ReadonlyMap<string, ReadonlyArray<string>>>
  /** What it complained of. */
  readonly errors: () => Promise<string>
  readonly remove: () => Promise<void>
}

export interface NginxOptions {
  readonly replicas: ReadonlyArray<ServiceProcess>
  /** `usual`: without the line that turns buffering off, as in a proxy that knows nothing of streams. */
  readonly buffering?: "as shipped" | "usual"
}

/** Where the program is; undefined: it is not installed. */
export const nginxProgram: string | undefined = [
  ...(process.env["PATH"] ?? "").split(delimiter),
  "/usr/sbin",
  "/usr/local/sbin",
  "/opt/homebrew/bin"
]
  .map((folder) => join(folder, "nginx"))
  .find((program) => existsSync(program))

export const startNginx = async ({ buffering = "as shipped", replicas }: NginxOptions): Promise<Nginx> => {
  if (nginxProgram === undefined) throw new Error("nginx is not installed")
  const folder = await mkdtemp(join(tmpdir(), "gateway-nginx-"))
  const port = await freePort()
  const baseUrl = `http://127.0.0.1:${port}`
  const file = join(folder, "nginx.conf")
  const errorLog = join(folder, "error.log")
  await writeFile(file, adapt(await readFile(shipped, "utf8"), { buffering, folder, port, replicas }))
  const nginx = spawn(nginxProgram, ["-e", errorLog, "-c", file], { stdio: "ignore" })
  started.add(nginx)
  nginx.once("exit", () => started.delete(nginx))

  const remove = async () => {
    if (nginx.exitCode === null && nginx.signalCode === null) {
      const exited = once(nginx, "exit")
      // Its workers end with it, and at once.
      nginx.kill("SIGTERM")
      await exited
    }
    await rm(folder, { recursive: true, force: true })
  }

  const deadline = Date.now() + 10_000
  while (!(await isThere(baseUrl))) {
    if (nginx.exitCode === null && Date.now() < deadline) await sleep(25)
    else {
      const said = await readFile(errorLog, "utf8")
      await remove()
      throw new Error(`nginx did not start:\n${said}`)
    }
  }
  return {
    baseUrl,
    sentTo: async () => {
      const lines = (await readFile(join(folder, "access.log"), "utf8"))
        .trimEnd()
        .split("\n")
        .map((line) => decodeLine(line))
      return new Map(lines.map(({ requestId, upstream }) => [requestId, upstream.split(", ")]))
    },
    errors: () => readFile(errorLog, "utf8"),
    remove
  }
}

const shipped = join(import.meta.dirname, "../../docker/nginx.conf")

const decodeLine = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ requestId: Schema.String, upstream: Schema.String }))
)

/** The shipped configuration with the addresses and folders of a test, and nothing else changed. */
const adapt = (
  configuration: string,
  { buffering, folder, port, replicas }: Required<NginxOptions> & { readonly folder: string; readonly port: number }
): string => {
  const servers = replicas.map(({ baseUrl }) => `server ${new URL(baseUrl).host};`).join("\n    ")
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((of) => `${of}_temp_path ${folder}/${of};`)
  // Its workers would otherwise run as a user who may not write here.
  const user = process.getuid?.() === 0 ? "user root;" : ""
  const changes: ReadonlyArray<readonly [string, string]> = [
    ["worker_processes auto;", `daemon off;\n${user}\npid ${folder}/nginx.pid;\nworker_processes auto;`],
    ["http {", ["http {", ...temporary].join("\n  ")],
    ["/var/log/nginx/access.log", join(folder, "access.log")],
    ["server gateway-1:8080;\n    server gateway-2:8080;", servers],
    ["listen 8080;", `listen 127.0.0.1:${port};`],
    ...(buffering === "usual" ? ([["proxy_buffering off;", ""]] as const) : [])
  ]
  return changes.reduce((text, [from, to]) => {
    if (text.split(from).length !== 2) throw new Error(`docker/nginx.conf does not have one "${from}"`)
    return text.replace(from, to)
  }, configuration)
}

const isThere = async (baseUrl: string): Promise<boolean> => {
  try {
    return (await get(baseUrl, "/metrics")).status === 404
  } catch {
    // Nobody listens there yet.
    return false
  }
}

/** A test that is cut short must not leave them behind. */
const started = new Set<ChildProcess>()
process.once("exit", () => {
  for (const nginx of started) nginx.kill("SIGTERM")
})
