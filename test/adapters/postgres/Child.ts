import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"

/** A process that runs a script of this folder and says things line by line. It is killed when the scope ends. */
export const startChild = Effect.fnUntraced(function* (script: string, ...args: ReadonlyArray<string>) {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [join(import.meta.dirname, script), ...args], { stdio: ["pipe", "pipe", "inherit"] })
    ),
    (child) => kill(child, "SIGKILL")
  )
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  return {
    pid: child.pid,
    tell: (line: string) => Effect.sync(() => void child.stdin.write(`${line}\n`)),
    /** The next line, or undefined when it has said its last. */
    hear: Effect.promise(async (): Promise<string | undefined> => (await lines.next()).value),
    kill: kill(child, "SIGKILL"),
    /** Closes its input and waits until it is gone. */
    leave: Effect.promise(async () => {
      const exited = once(child, "exit")
      child.stdin.end()
      await exited
    })
  }
})

const kill = (child: ReturnType<typeof spawn>, signal: NodeJS.Signals) =>
  Effect.promise(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, "exit")
    child.kill(signal)
    await exited
  })
