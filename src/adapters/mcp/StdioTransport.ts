import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js"
import { type JSONRPCMessage, JSONRPCMessageSchema } from "@modelcontextprotocol/sdk/types.js"
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import { supervised } from "./Supervision.ts"

/** The largest message, in bytes: a resource of 10 MB in base64 fits. */
const mostMessage = 16 * 1024 * 1024

/** Log lines and the like that a server may print among its messages: so many bytes between two messages. */
const mostNoise = 1024 * 1024

/** Lines in one second, messages or not: beyond it a server keeps everybody else from the processor. */
const mostLines = 5_000

/** Pieces of a server's standard error that are told in one second; the rest is read and forgotten. */
const mostPieces = 20

/** What may wait for a server that does not read, in bytes. */
const mostWaiting = 16 * 1024 * 1024

/** How long the end of a server's processes may take, in milliseconds: its shell has killed them long before. */
const mostEnding = 5_000

/** What a process printed arrives within this after its end, in milliseconds. */
const mostDraining = 100

export interface StdioServer {
  readonly command: string
  readonly args: ReadonlyArray<string>
  /** All of the environment that the process gets. */
  readonly env: Readonly<Record<string, string>>
  /** A piece of what the server wrote to its standard error, of a few each second. */
  readonly onStderr: (text: string) => void
}

/**
 * An MCP server as a process of this machine, one message a line. In place of the SDK's own: its process and all that it
 * started end with the connection and with this service, and what it prints is bounded. One that breaks a bound loses
 * the connection.
 */
export class StdioTransport implements Transport {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: (<T extends JSONRPCMessage>(message: T) => void) | undefined
  /** Why the connection was lost. */
  ending: string | undefined
  #child: ChildProcess | undefined
  #closing: Promise<void> | undefined
  #parts: Array<Buffer> = []
  #size = 0
  #noise = 0
  #lines = 0
  #second = 0
  #pieces = 0
  #stderrSecond = 0
  readonly #server: StdioServer

  constructor(server: StdioServer) {
    this.#server = server
  }

  start(): Promise<void> {
    const { args, command, env, onStderr } = this.#server
    const supervision = supervised(command, args, randomUUID())
    const child = spawn(supervision.command, supervision.args, {
      env,
      // A session and a process group of its own.
      detached: true,
      stdio: ["pipe", "pipe", "pipe", "pipe"],
      windowsHide: true
    })
    this.#child = child
    child.stdout.on("data", (chunk: Buffer) => this.#take(chunk))
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      const second = Math.floor(performance.now() / 1000)
      if (second !== this.#stderrSecond) {
        this.#stderrSecond = second
        this.#pieces = 0
      }
      if (++this.#pieces <= mostPieces) onStderr(text)
    })
    for (const stream of child.stdio) stream?.on("error", (error) => this.onerror?.(error))
    child.once("exit", (code, signal) => {
      const lose = () =>
        this.#lose(signal === null ? `its process ended with code ${code}` : `its process got ${signal}`)
      // What it printed before has not all arrived yet. Others that it started may hold the stream open.
      child.stdout.once("close", lose)
      setTimeout(lose, mostDraining).unref()
    })
    return new Promise((resolve, reject) => {
      child.once("spawn", resolve)
      child.once("error", (error) => {
        this.onerror?.(error)
        reject(error)
      })
    })
  }

  send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin
    if (stdin == null || !stdin.writable || this.ending !== undefined) {
      return Promise.reject(new Error("the connection is closed"))
    }
    if (stdin.writableLength > mostWaiting) return Promise.reject(new Error("the server does not read its input"))
    stdin.write(`${JSON.stringify(message)}\n`)
    return Promise.resolve()
  }

  /** Resolves when no process of the server is left. */
  close(): Promise<void> {
    this.#closing ??= this.#end().finally(() => this.#lose("it was closed"))
    return this.#closing
  }

  async #end(): Promise<void> {
    const child = this.#child
    if (child?.pid === undefined) return
    child.stdin?.end()
    // Its shell waits for this end.
    child.stdio[3]?.destroy()
    const deadline = Date.now() + mostEnding
    while (isAlive(-child.pid) && Date.now() < deadline) await sleep(10)
    if (isAlive(-child.pid)) signal(-child.pid, "SIGKILL")
    child.stdout?.destroy()
    child.stderr?.destroy()
  }

  #lose(reason: string): void {
    if (this.ending !== undefined) return
    this.ending = reason
    this.#parts = []
    this.onclose?.()
    // What the server started may be there still.
    void this.close()
  }

  /** The server harms others if it goes on. */
  #break(reason: string): void {
    this.#child?.stdout?.destroy()
    this.#lose(reason)
  }

  #take(chunk: Buffer): void {
    let start = 0
    while (this.ending === undefined) {
      const end = chunk.indexOf(0x0a, start)
      const part = chunk.subarray(start, end === -1 ? undefined : end)
      this.#size += part.length
      if (this.#size > mostMessage) return this.#break(`it printed a line of more than ${mostMessage} bytes`)
      if (part.length > 0) this.#parts.push(part)
      if (end === -1) return
      start = end + 1
      const line = Buffer.concat(this.#parts).toString("utf8")
      this.#parts = []
      this.#size = 0
      this.#read(line)
    }
  }

  #read(line: string): void {
    const second = Math.floor(performance.now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#lines = 0
    }
    if (++this.#lines > mostLines) return this.#break(`it printed more than ${mostLines} lines in a second`)
    const message = messageOf(line)
    if (message !== undefined) {
      this.#noise = 0
      return this.onmessage?.(message)
    }
    this.#noise += line.length + 1
    if (this.#noise > mostNoise) this.#break("it printed text that is no message of the protocol, without end")
  }
}

/** Undefined for what is none: servers like to greet or to log on their standard output. */
const messageOf = (line: string): JSONRPCMessage | undefined => {
  try {
    return JSONRPCMessageSchema.parse(JSON.parse(line))
  } catch {
    return undefined
  }
}

/** Whether a process, or by a negative id one of its group, is there. */
const isAlive = (pid: number): boolean => signal(pid, 0)

/** Whether there was somebody to get it. */
const signal = (pid: number, name: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}
