/**
 * A bare Node server that answers every request with the bytes of one file: the ceiling for a route whose answer
 * does not change. Arguments: its port, the file.
 */
import { readFileSync } from "node:fs"
import { createServer } from "node:http"

const [port, file] = process.argv.slice(2)
if (port === undefined || file === undefined) throw new Error("usage: BytesServer.ts <port> <file>")

const bytes = readFileSync(file)
const headers = { "content-type": "application/json", "content-length": bytes.length }

createServer((_request, response) => {
  response.writeHead(200, headers)
  response.end(bytes)
}).listen(Number(port), "127.0.0.1")
