import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { join, resolve } from "node:path"
import { text } from "node:stream/consumers"

/**
 * `npm run check`: every rule that needs no running code, all at once. What passes says one line, what fails says why.
 */
const root = resolve(import.meta.dirname, "../..")
const bin = (path: string) => join(root, "node_modules", path)

/** TypeScript 7 as `tsc` is, built with the Effect diagnostics: one pass for types and floating effects, no patch. */
const effectTsgo = bin("@effect/tsgo/dist/effect-tsgo.cjs")
const compiler = execFileSync(process.execPath, [effectTsgo, "get-exe-path"], { cwd: root, encoding: "utf8" }).trim()

const steps: ReadonlyArray<readonly [name: string, command: string, ...args: ReadonlyArray<string>]> = [
  ["types", compiler, "--project", "tsconfig.json"],
  ["lint", process.execPath, bin("oxlint/bin/oxlint"), "--type-aware", "src", "test"],
  ["layers", process.execPath, join(import.meta.dirname, "CheckLayers.ts")],
  ["format", process.execPath, bin("oxfmt/bin/oxfmt"), "--check"]
]

const passed = await Promise.all(
  steps.map(async ([name, command, ...args]) => {
    const start = performance.now()
    const child = spawn(command, args, {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"]
    })
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")])
    const seconds = ((performance.now() - start) / 1000).toFixed(1)
    console.log(`${code === 0 ? "ok" : "FAILED"} ${name} (${seconds} s)`)
    if (code !== 0) console.log((stdout + stderr).trimEnd())
    return code === 0
  })
)
process.exitCode = passed.every(Boolean) ? 0 : 1
