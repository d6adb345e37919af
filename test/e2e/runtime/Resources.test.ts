import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdir, mkdtemp, realpath, rm, symlink, truncate, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { stringify } from "yaml"
import { exchange, repliesIn } from "../../adapters/http/RawHttp.ts"
import { everything, filesystem, misbehaving } from "../../fixtures/mcp/Servers.ts"
import { type Api, messageError, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"

const binary = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0, 0xff])

const write = async (folder: string, files: Readonly<Record<string, string | Uint8Array>>) => {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), content)
  }
}

/** A directory of AGENT_SOURCE_ROOTS with an agent and files for it, and one beside it that nobody allowed. */
const prepare = async () => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "gateway-resources-")))
  const root = join(folder, "sources")
  await write(folder, {
    "outside/secret.txt": "the secret",
    "sources/.ssh/key": "the secret",
    "sources/docs/read me, 100% ä.md": "# Hello ä",
    "sources/docs/data.json": "{}",
    "sources/docs/picture.png": binary,
    "sources/docs/mystery": "plain words",
    "sources/docs/program": new Uint8Array([0, 1, 2]),
    "sources/docs/latin.txt": new Uint8Array([0x66, 0xfc, 0x72]),
    "sources/docs/.env": "KEY=the secret",
    "sources/docs/.hidden/x.txt": "the secret",
    "sources/docs/a/b/deep.txt": "deep",
    "sources/docs/a/b/c/too-deep.txt": "the secret",
    "sources/code/main.ts": "export {}",
    "sources/code/key.pem": "the secret",
    "sources/served/served.txt": "served",
    "sources/agent/notes/own.md": "own",
    "sources/agent/.env": "KEY=the secret"
  })
  const docs = join(root, "docs")
  await symlink(join(folder, "outside/secret.txt"), join(docs, "link.txt"))
  await symlink(join(folder, "outside"), join(docs, "way-out"))
  await symlink("/dev/zero", join(docs, "zero"))
  await promisify(execFile)("mkfifo", [join(docs, "pipe")])
  await writeFile(join(docs, "large.log"), "first line\n")
  await truncate(join(docs, "large.log"), 30 * 1024 * 1024)
  await write(root, {
    "agent/agent.yml": stringify({
      systemPrompt: "You help.",
      llm: { provider: "service", model: "echo", apiKey: "$GATEWAY_API_KEY" },
      internalResources: {
        enabled: true,
        resources: [
          {
            type: "filesystem",
            paths: ["notes", docs, join(folder, "outside"), join(root, ".ssh"), "/", "/proc/self"]
          },
          { type: "filesystem", paths: [join(root, "code")], includeExtensions: [".ts"] },
          { type: "blob" }
        ]
      },
      mcpServers: {
        everything,
        files: filesystem(join(root, "served")),
        broken: { ...misbehaving("crash", "none", "at-start"), timeout: 5_000 }
      }
    })
  })
  return { folder, root, docs, outside: join(folder, "outside") }
}

/** A picture of this length of its base64 text, as an attachment of a prompt. */
const attach = (api: Api, name: string, bytes: Uint8Array, mimeType: string, filename: string) =>
  api("POST", "/api/prompts/custom", {
    name,
    content: "Look.",
    resource: { base64: Buffer.from(bytes).toString("base64"), mimeType, filename }
  })

const contentPath = (uri: string) => `/api/resources/${encodeURIComponent(uri)}/content`

describe.each(stores)("resources on $store", ({ options }) => {
  let place: Awaited<ReturnType<typeof prepare>>
  let runtime: RuntimeService
  let mine: Api

  beforeAll(async () => {
    place = await prepare()
    runtime = await startRuntime({
      ...(await options()),
      env: { AGENT_SOURCE_ROOTS: place.root, MCP_STDIO: "allowed" }
    })
    mine = runtime.mine
    const installed = await mine("POST", "/api/agents/install", {
      id: "reader",
      sourcePath: join(place.root, "agent"),
      metadata: { description: "Reads.", author: "somebody" }
    })
    expect([installed.status, installed.text]).toEqual([201, expect.any(String)])
    const switched = await mine("POST", "/api/agents/switch", { id: "reader" })
    expect([switched.status, switched.text]).toEqual([200, expect.any(String)])
  })
  afterAll(async () => {
    await runtime.service.remove()
    await rm(place.folder, { recursive: true, force: true })
  })

  const list = async (api: Api = mine) => {
    const { body } = await api("GET", "/api/resources")
    return (body as { readonly resources: ReadonlyArray<Readonly<Record<string, unknown>>> }).resources
  }

  const content = (uri: string, mimeType: string, text: string, size: number) => ({
    ok: true,
    content: { contents: [{ uri, mimeType, text }], _meta: { size } }
  })

  test("GET /api/resources: 200 with files, blobs and what MCP servers offer", async () => {
    await attach(mine, "pictured", binary, "image/png", "pic.png")
    const { body, status } = await mine("GET", "/api/resources")
    expect([status, body]).toEqual([200, { ok: true, resources: expect.any(Array) }])
    const found = await list()
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u)
    const blob = createHash("sha256").update(binary).digest("hex")
    expect(found).toEqual(
      expect.arrayContaining([
        {
          uri: `fs://${place.docs}/read me, 100% ä.md`,
          name: "read me, 100% ä.md",
          mimeType: "text/markdown",
          source: "internal",
          size: 10,
          lastModified: time
        },
        { uri: `fs://${place.docs}/mystery`, name: "mystery", source: "internal", size: 11, lastModified: time },
        {
          uri: `blob:${blob}`,
          name: "pic.png",
          mimeType: "image/png",
          source: "internal",
          size: binary.length,
          lastModified: time
        },
        expect.objectContaining({
          uri: expect.stringMatching(/^mcp:everything:demo:\/\/resource\/static\//u),
          source: "mcp",
          serverName: "everything",
          metadata: { originalUri: expect.stringMatching(/^demo:/u) }
        })
      ])
    )
    expect(new Set(found.map(({ uri }) => uri)).size).toBe(found.length)
    const files = found.map(({ uri }) => String(uri)).filter((uri) => uri.startsWith("fs:"))
    expect(files.map((uri) => uri.replace(`fs://${place.root}/`, "")).sort()).toEqual(
      [
        expect.stringMatching(/^fs:\/\/\/.+\/agents\/reader\/notes\/own\.md$/u),
        "code/main.ts",
        "docs/a/b/deep.txt",
        "docs/data.json",
        "docs/large.log",
        "docs/latin.txt",
        "docs/mystery",
        "docs/picture.png",
        "docs/program",
        "docs/read me, 100% ä.md"
      ].sort((a, b) =>
        typeof a === "string" && typeof b === "string" ? (a < b ? -1 : 1) : typeof a === "string" ? -1 : 1
      )
    )
    await expect
      .poll(() => runtime.service.logs().stdout, { timeout: 5_000 })
      .toMatch(/resources of an MCP server are missing/u)
  })

  test("GET /api/resources/{resourceId}/content: 200 for every resource of the list, and so is HEAD", async () => {
    for (const { uri } of await list()) {
      const read = await mine("GET", contentPath(String(uri)))
      expect([uri, read.status]).toEqual([uri, 200])
      expect(read.body).toEqual({
        ok: true,
        content: {
          contents: [{ uri, mimeType: expect.stringMatching(/^\w+\/\S+$/u), text: expect.any(String) }],
          _meta: expect.objectContaining({ size: expect.any(Number) })
        }
      })
      const head = await mine("HEAD", `/api/resources/${encodeURIComponent(String(uri))}`)
      expect([uri, head.status, head.text]).toEqual([uri, 200, ""])
    }
  })

  test("GET /api/resources/{resourceId}/content: 200 with text by its type", async () => {
    for (const [name, mimeType, text, size] of [
      ["read me, 100% ä.md", "text/markdown", "# Hello ä", 10],
      ["data.json", "application/json", "{}", 2],
      ["mystery", "text/plain", "plain words", 11],
      ["a/b/deep.txt", "text/plain", "deep", 4]
    ] as const) {
      const uri = `fs://${place.docs}/${name}`
      const read = await mine("GET", contentPath(uri))
      expect([read.status, read.body]).toEqual([200, content(uri, mimeType, text, size)])
    }
  })

  test("GET /api/resources/{resourceId}/content: 200 with a line in place of what is binary", async () => {
    for (const [name, originalMimeType, size] of [
      ["picture.png", "image/png", binary.length],
      ["program", "application/octet-stream", 3],
      ["latin.txt", "text/plain", 3],
      // NUL after NUL, of which only the beginning is read.
      ["large.log", "text/plain", 30 * 1024 * 1024]
    ] as const) {
      const uri = `fs://${place.docs}/${name}`
      const read = await mine("GET", contentPath(uri))
      const text = `[Binary file: ${name} (${size} bytes)]`
      expect([read.status, read.body]).toEqual([
        200,
        {
          ok: true,
          content: {
            contents: [{ uri, mimeType: "text/plain", text }],
            _meta: { isBinary: true, size, originalMimeType }
          }
        }
      ])
    }
  })

  test("GET /api/resources/{resourceId}/content: 200 with the first 10 MB of a longer text", async () => {
    const uri = `fs://${place.docs}/long.txt`
    await writeFile(join(place.docs, "long.txt"), `x${"ä".repeat(6_000_000)}`)
    const read = await mine("GET", contentPath(uri))
    expect([read.status, read.body]).toEqual([
      200,
      {
        ok: true,
        content: {
          contents: [{ uri, mimeType: "text/plain", text: `x${"ä".repeat(5 * 1024 * 1024 - 1)}` }],
          _meta: { size: 12_000_001, isTruncated: true }
        }
      }
    ])
    await rm(join(place.docs, "long.txt"))
  })

  const forbidden = (): ReadonlyArray<string> => {
    const { docs, outside, root } = place
    return [
      `fs://${docs}/nothing.txt`,
      `fs://${docs}`,
      `fs://${docs}/`,
      `fs://${docs}/a`,
      `fs://${docs}/../../outside/secret.txt`,
      `fs://${docs}/../docs/data.json`,
      `fs://${docs}/./data.json`,
      `fs://${docs}//data.json`,
      `fs://${docs}/data.json/`,
      `fs://${docs}/%2e%2e/docs/data.json`,
      `fs://${docs}/%2e%2e%2f%2e%2e%2foutside/secret.txt`,
      `fs://${docs}/%252e%252e/docs/data.json`,
      `fs://${docs}/..%2f..%2foutside%2fsecret.txt`,
      `fs://${docs}/read%20me,%20100%25%20ä.md`,
      `fs://${docs}/..\\..\\outside\\secret.txt`,
      `fs://${docs}/link.txt`,
      `fs://${docs}/way-out/secret.txt`,
      `fs://${docs}/zero`,
      `fs://${docs}/pipe`,
      `fs://${docs}/.env`,
      `fs://${docs}/.hidden/x.txt`,
      `fs://${docs}/a/b/c/too-deep.txt`,
      `fs://${docs}/data.json\0`,
      `fs://${docs}/\0`,
      `fs://${docs}/${"x".repeat(3_000)}`,
      `fs://${docs}/${"x/".repeat(2_000)}`,
      `fs://${root}/code/key.pem`,
      `fs://${root}/.ssh/key`,
      `fs://${root}/agent/notes/own.md`,
      `fs://${outside}/secret.txt`,
      `fs:${docs}/data.json`,
      `fs://localhost${docs}/data.json`,
      `FS://${docs}/data.json`,
      `file://${docs}/data.json`,
      `${docs}/data.json`,
      "fs:///etc/passwd",
      "fs:///dev/zero",
      "fs:///proc/self/environ",
      "fs:///proc/self/fd/0",
      "fs:///",
      "fs://",
      "fs:",
      "%",
      "%ff",
      "\u{10ffff}",
      "blob:",
      "blob:abc",
      `blob:${"0".repeat(64)}`,
      `blob:${"0".repeat(62)}/.`,
      "mcp:",
      "mcp:everything",
      "mcp:everything:",
      "mcp:everything:demo://nothing",
      "mcp:nobody:demo://resource/static/document/features.md",
      "mcp:files:file:///etc/passwd",
      "http://127.0.0.1/",
      "__proto__",
      "constructor"
    ]
  }

  test("GET /api/resources/{resourceId}/content: 404 alike for what is not there, not allowed or outside", async () => {
    for (const uri of forbidden()) {
      const started = Date.now()
      const read = await mine("GET", contentPath(uri))
      expect([uri, read.status, read.body]).toEqual([uri, 404, messageError])
      expect(read.text).not.toContain("the secret")
      expect(Date.now() - started).toBeLessThan(2_000)
    }
  })

  test("HEAD /api/resources/{resourceId}: 404 with an empty body for the same", async () => {
    for (const uri of [...forbidden(), "mcp:broken:x"]) {
      const head = await mine("HEAD", `/api/resources/${encodeURIComponent(uri)}`)
      expect([uri, head.status, head.text]).toEqual([uri, 404, ""])
    }
  })

  test("HEAD /api/resources/{resourceId}: 200 with an empty body, also for what a server does not list", async () => {
    for (const uri of [
      `fs://${place.docs}/data.json`,
      "mcp:everything:demo://resource/dynamic/text/1",
      `mcp:everything:demo://resource/dynamic/blob/1`
    ]) {
      const head = await mine("HEAD", `/api/resources/${encodeURIComponent(uri)}`)
      expect([head.status, head.text]).toEqual([200, ""])
    }
  })

  test("a path is decoded exactly once, and a resource id is one segment of it", async () => {
    const id = encodeURIComponent(`fs://${place.docs}/data.json`)
    const target = async (path: string) => {
      const head = `GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${runtime.keys.mine}\r\nconnection: close\r\n\r\n`
      const [reply] = repliesIn(await exchange(runtime.service.baseUrl, [head]))
      expect(reply?.text).not.toContain("the secret")
      return reply?.status
    }
    expect(await target(`/api/resources/${id}/content`)).toBe(200)
    expect(await target(`/api/resources/${id.replaceAll(/%../gu, (escape) => escape.toLowerCase())}/content`)).toBe(200)
    for (const path of [
      `/api/resources/${encodeURIComponent(id)}/content`,
      `/api/resources/fs://${place.docs}/data.json/content`,
      `/api/resources/${id}%2F..%2Fdata.json/content`,
      `/api/resources/${id}%2F%2e%2e%2Fdata.json/content`,
      `/api/resources/${id}%252F%252e%252e%252Fdata.json/content`,
      `/api/resources/../resources/${id}/content/x`,
      "/api/resources/%2e%2e/content",
      "/api/resources/%00/content"
    ]) {
      expect([path, await target(path)]).toEqual([path, 404])
    }
    // Two slashes are one, so that this is the path of a resource itself, which is only looked for.
    expect(await target("/api/resources//content")).toBe(405)
    for (const path of ["/api/resources/%/content", "/api/resources/%ff/content", "/api/resources/%c0%ae/content"]) {
      expect([path, await target(path)]).toEqual([path, 404])
    }
  })

  test("blobs: what a prompt brings is a resource until the prompt is deleted", async () => {
    const bytes = Buffer.from("a note, long enough to be its own")
    const uri = `blob:${createHash("sha256").update(bytes).digest("hex")}`
    for (const name of ["noted", "noted-again"]) {
      expect((await attach(mine, name, bytes, "text/plain", "note.txt")).status).toBe(201)
    }
    const read = await mine("GET", contentPath(uri))
    expect([read.status, read.body]).toEqual([200, content(uri, "text/plain", bytes.toString(), bytes.length)])
    expect((await mine("DELETE", "/api/prompts/custom/noted")).status).toBe(204)
    expect((await mine("GET", contentPath(uri))).status).toBe(200)
    expect((await mine("DELETE", "/api/prompts/custom/noted-again")).status).toBe(204)
    expect((await mine("GET", contentPath(uri))).status).toBe(404)
  })

  test("another organization sees none of it", async () => {
    await attach(mine, "private", Buffer.from("private"), "text/plain", "private.txt")
    const theirs = new Set((await list(runtime.foreign)).map(({ uri }) => uri))
    for (const { uri } of await list()) {
      expect(theirs).not.toContain(uri)
      const read = await runtime.foreign("GET", contentPath(String(uri)))
      expect([uri, read.status, read.body]).toEqual([uri, 404, messageError])
      const head = await runtime.foreign("HEAD", `/api/resources/${encodeURIComponent(String(uri))}`)
      expect([uri, head.status]).toEqual([uri, 404])
    }
    const servers = await runtime.foreign("GET", "/api/mcp/servers/everything/resources")
    expect([servers.status, servers.body]).toEqual([404, messageError])
    const read = await runtime.foreign(
      "GET",
      `/api/mcp/servers/everything/resources/${encodeURIComponent("x")}/content`
    )
    expect([read.status, read.body]).toEqual([404, messageError])
  })

  const served = (id: string, server = "everything") =>
    `/api/mcp/servers/${server}/resources/${encodeURIComponent(id)}/content`

  test("GET /api/mcp/servers/{serverId}/resources: 200 with what the server calls each", async () => {
    const { body, status } = await mine("GET", "/api/mcp/servers/everything/resources")
    expect([status, body]).toEqual([200, { success: true, resources: expect.any(Array) }])
    const { resources } = body as { readonly resources: ReadonlyArray<Readonly<Record<string, unknown>>> }
    expect(resources.length).toBeGreaterThan(0)
    for (const resource of resources) {
      expect(resource).toMatchObject({
        uri: `mcp:everything:${String(resource["originalUri"])}`,
        name: expect.any(String),
        originalUri: expect.stringMatching(/^demo:/u),
        serverName: "everything",
        source: "mcp"
      })
      expect((await mine("GET", served(String(resource["originalUri"])))).status).toBe(200)
    }
    const none = await mine("GET", "/api/mcp/servers/files/resources")
    expect([none.status, none.body]).toEqual([200, { success: true, resources: [] }])
  })

  test("GET /api/mcp/servers/{serverId}/resources/{resourceId}/content: 200 with text and with binary data", async () => {
    const text = await mine("GET", served("demo://resource/dynamic/text/7"))
    const uri = "mcp:everything:demo://resource/dynamic/text/7"
    expect([text.status, text.body]).toEqual([
      200,
      {
        success: true,
        data: {
          content: {
            contents: [{ uri, mimeType: "text/plain", text: expect.stringContaining("Resource 7") }],
            _meta: { size: expect.any(Number) }
          }
        }
      }
    ])
    const generic = await mine("GET", contentPath(uri))
    expect(generic.status).toBe(200)
    const blob = await mine("GET", served("demo://resource/dynamic/blob/7"))
    expect([blob.status, blob.body]).toEqual([
      200,
      {
        success: true,
        data: {
          content: {
            contents: [
              {
                uri: "mcp:everything:demo://resource/dynamic/blob/7",
                mimeType: "text/plain",
                text: expect.stringMatching(/^\[Binary file: demo:\/\/resource\/dynamic\/blob\/7 \(\d+ bytes\)\]$/u)
              }
            ],
            _meta: { isBinary: true, size: expect.any(Number), originalMimeType: "text/plain" }
          }
        }
      }
    ])
  })

  test("GET /api/mcp/servers/{serverId}/resources: 404 for a server that nobody knows", async () => {
    for (const server of ["nobody", "%2e%2e", "__proto__", "everything%2F"]) {
      const answer = await mine("GET", `/api/mcp/servers/${server}/resources`)
      expect([server, answer.status, answer.body]).toEqual([server, 404, messageError])
    }
  })

  test("GET /api/mcp/servers/{serverId}/resources/{resourceId}/content: 404 for an unknown server or resource", async () => {
    for (const path of [served("demo://nothing"), served("x", "nobody"), served("demo://resource/static/x\0")]) {
      const answer = await mine("GET", path)
      expect([path, answer.status, answer.body]).toEqual([path, 404, messageError])
    }
  })

  test("GET /api/mcp/servers/{serverId}/resources: 502 for a server that is down", async () => {
    const answer = await mine("GET", "/api/mcp/servers/broken/resources")
    expect([answer.status, answer.body]).toEqual([502, messageError])
  })

  test("GET /api/mcp/servers/{serverId}/resources/{resourceId}/content: 502 for a server that is down", async () => {
    const answer = await mine("GET", served("x", "broken"))
    expect([answer.status, answer.body]).toEqual([502, messageError])
  })

  test("GET /api/resources/{resourceId}/content: 502 for a resource of a server that is down", async () => {
    const answer = await mine("GET", contentPath("mcp:broken:x"))
    expect([answer.status, answer.body]).toEqual([502, messageError])
  })
})
