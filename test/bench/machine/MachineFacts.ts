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
