/** What the kernel says about a process. Linux only: elsewhere every figure is `undefined`. */
import { execFileSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"

const ticksPerSecond = process.platform === "linux" ? Number(execFileSync("getconf", ["CLK_TCK"])) : 100

const readProc = (pid: number, file: string) => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8")
  } catch {
    return undefined
  }
}

/** The fields of `stat` after the command name, which may itself contain spaces and brackets. */
const statFields = (pid: number) =>
  readProc(pid, "stat")
    ?.replace(/^.*\) /s, "")
    .split(" ")

/** User and system time of all threads, and of children that ended and were waited for, in microseconds. */
export const cpuMicros = (pid: number) => {
  const fields = statFields(pid)
  if (fields === undefined) return undefined
  const ticks = [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0)
  return (ticks / ticksPerSecond) * 1_000_000
}

const childrenOf = (pid: number) =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(statFields(Number(name))?.[1]) === pid)
    .map(Number)

/** CPU time of a process and its direct children, such as a database server with its sessions. */
export const familyCpuMicros = (pid: number) => {
  const own = cpuMicros(pid)
  if (own === undefined) return undefined
  return childrenOf(pid).reduce((sum, child) => sum + (cpuMicros(child) ?? 0), own)
}

/** Resident memory in bytes. */
export const residentBytes = (pid: number) => {
  const kilobytes = readProc(pid, "status")?.match(/^VmRSS:\s+(\d+) kB/m)?.[1]
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024
}
