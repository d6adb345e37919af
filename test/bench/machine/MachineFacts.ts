import { readFileSync } from "node:fs"
import { cpus, loadavg, platform, release, totalmem } from "node:os"

/** What a reader of the figures needs to know about where they were taken. */
export const machineFacts = () => ({
  cpu: cpus()[0]?.model ?? "unknown",
  cores: cpus().length,
  memoryMegabytes: Math.round(totalmem() / 1_048_576),
  system: `${platform()} ${release()}`,
  node: process.version,
  /** Well above 0 before anything was started: somebody else was using the machine. */
  loadAverageBefore: loadavg()[0] ?? 0
})
export type MachineFacts = ReturnType<typeof machineFacts>

/** Processor time of this machine since it was started, in ticks; `taken` is what its host gave to others meanwhile. */
export const processorTime = (): { readonly all: number; readonly taken: number } => {
  if (platform() !== "linux") return { all: 0, taken: 0 }
  const [, , ...ticks] = readFileSync("/proc/stat", "utf8").split("\n", 1).join("").split(" ")
  const spent = ticks.slice(0, 8).map(Number)
  return { all: spent.reduce((sum, some) => sum + some, 0), taken: spent[7] ?? 0 }
}
