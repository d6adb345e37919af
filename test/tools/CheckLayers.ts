import { cruise } from "dependency-cruiser"
import extractDepcruiseOptions from "dependency-cruiser/config-utl/extract-depcruise-options"
import { globSync } from "node:fs"
import { join, resolve } from "node:path"

/**
 * Checks the layer rules of `.dependency-cruiser.cjs` on `src` of the given directory, by default this project.
 * A tree that was not read counts as broken: a parser that does not know the files would find no violation either.
 */
const root = resolve(import.meta.dirname, "../..")
const directory = resolve(process.argv[2] ?? root)

const options = await extractDepcruiseOptions(join(root, ".dependency-cruiser.cjs"))
const { output } = await cruise(["src"], { ...options, baseDir: directory })
if (typeof output === "string") throw new Error("dependency-cruiser gave no result object")

const cruised = new Set(output.modules.map(({ source }) => source))
const unread = globSync("src/**/*.ts", { cwd: directory }).filter((file) => !cruised.has(file))
const dependencies = output.summary.totalDependenciesCruised ?? 0

const complaints = [
  ...output.summary.violations.map(({ cycle, from, rule, to }) =>
    [`${rule.name}: ${from}`, ...(cycle?.map(({ name }) => name) ?? [to])].join(" -> ")
  ),
  ...unread.map((file) => `not-read: ${file}`),
  ...(cruised.size === 0 || dependencies === 0 ? ["nothing-read: no module or no import was found"] : [])
]

for (const complaint of complaints) console.error(complaint)
console.log(`layers: ${cruised.size} modules, ${dependencies} imports, ${complaints.length} violations`)
process.exitCode = complaints.length === 0 ? 0 : 1
