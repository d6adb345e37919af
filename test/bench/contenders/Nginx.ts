import { Effect, FileSystem } from "effect"
import { findProgram } from "../machine/FindProgram.ts"
import { freePort } from "../machine/FreePort.ts"
import { RunFolder } from "../machine/RunFolder.ts"
import { startProcess } from "../machine/RunningProcess.ts"
import { type Contender, ContenderMissing } from "./Contender.ts"

/** One process, as the others are; a connection is never closed for its age. */
const configuration = (folder: string, port: number, upstream: string) => `
daemon off;
master_process off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log ${folder}/nginx-error.log warn;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path ${folder}/nginx-body;
  proxy_temp_path ${folder}/nginx-proxy;
  fastcgi_temp_path ${folder}/nginx-fastcgi;
  uwsgi_temp_path ${folder}/nginx-uwsgi;
  scgi_temp_path ${folder}/nginx-scgi;
  upstream completions {
    server ${upstream};
    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://completions;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`

export const startNginx = Effect.fn("startNginx")(function* (upstream: Contender) {
  const files = yield* FileSystem.FileSystem
  const { path } = yield* RunFolder
  const program = yield* findProgram("nginx")
  if (program === undefined) {
    return yield* new ContenderMissing({ name: "nginx", reason: "nginx is not installed" })
  }
  const port = yield* freePort
  const origin = `http://127.0.0.1:${port}`
  yield* files.writeFileString(`${path}/nginx.conf`, configuration(path, port, new URL(upstream.origin).host))
  const { pid } = yield* startProcess({
    name: "nginx",
    command: program,
    args: ["-e", `${path}/nginx-error.log`, "-c", `${path}/nginx.conf`],
    probe: origin
  })
  return { name: "nginx", origin, headers: {}, pid } satisfies Contender
})
