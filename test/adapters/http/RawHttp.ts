import { once } from "node:events"
import { connect } from "node:net"
import type { Reply } from "./Replies.ts"

/** What a server sends back for these bytes, until it closes the connection. A wait stands between the parts. */
export const exchange = async (
  baseUrl: string,
  parts: ReadonlyArray<string | Uint8Array>,
  { pause = 30, patience = 5_000 }: { readonly pause?: number; readonly patience?: number } = {}
): Promise<string> => {
  const { hostname, port } = new URL(baseUrl)
  const socket = connect({ host: hostname, port: Number(port) })
  const closed = once(socket, "close", { signal: AbortSignal.timeout(patience) })
  const received: Array<Buffer> = []
  socket.on("data", (data: Buffer) => received.push(data))
  // A server may close while the rest of a request is still being written: what it said before counts.
  socket.on("error", () => undefined)
  try {
    for (const part of parts) {
      if (socket.writable) socket.write(part)
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
    await closed
  } finally {
    socket.destroy()
  }
  return Buffer.concat(received).toString("utf8")
}

/** The replies in what a server sent, one after the other; those of status 100 are no replies. */
export const repliesIn = (sent: string): ReadonlyArray<Reply> => {
  const replies: Array<Reply> = []
  let rest = sent
  while (rest !== "") {
    const end = rest.indexOf("\r\n\r\n")
    if (end === -1) throw new Error(`no HTTP: ${rest.slice(0, 200)}`)
    const [first = "", ...lines] = rest.slice(0, end).split("\r\n")
    const [, status] = /^HTTP\/1\.1 (\d{3}) ./.exec(first) ?? []
    if (status === undefined) throw new Error(`no HTTP: ${first}`)
    const headers = new Headers(
      lines.map((line): [string, string] => {
        const colon = line.indexOf(":")
        return [line.slice(0, colon), line.slice(colon + 1).trim()]
      })
    )
    const body = Buffer.from(rest.slice(end + 4))
    const length = status === "100" ? 0 : Number(headers.get("content-length") ?? body.length)
    if (status !== "100") {
      replies.push({ status: Number(status), headers, text: body.subarray(0, length).toString("utf8") })
    }
    rest = body.subarray(length).toString("utf8")
  }
  return replies
}
