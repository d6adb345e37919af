import { readFile } from "node:fs/promises"
import { setTimeout as sleep } from "node:timers/promises"

/** By how much (MB) the resident memory of a process grew meanwhile, at most; 0 where the system does not tell. */
export const memoryGrowth = async (what: string, pid: number, use: () => Promise<unknown>): Promise<number> => {
  const before = await residentMemory(pid)
  let peak = before
  let running = true
  const watch = async () => {
    while (running) {
      peak = Math.max(peak, await residentMemory(pid))
      await sleep(20)
    }
  }
  const watched = watch()
  try {
    await use()
  } finally {
    running = false
    await watched
  }
  console.log(`memory with ${what}: from ${before.toFixed(0)} to ${peak.toFixed(0)} MB`)
  return peak - before
}

const residentMemory = async (pid: number): Promise<number> => {
  if (process.platform !== "linux") return 0
  const kilobytes = /^VmRSS:\s+(\d+) kB$/mu.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1]
  return Number(kilobytes) / 1_024
}
