import { Effect, type Exit, ManagedRuntime } from "effect"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import * as EgressLive from "../../../src/adapters/egress/EgressLive.ts"
import { isPublicAddress } from "../../../src/adapters/egress/PublicAddress.ts"
import { Egress, ForbiddenAddress } from "../../../src/application/ports/runtime/Egress.ts"

const guarded = ManagedRuntime.make(EgressLive.layer({ allowPrivate: false }))
const open = ManagedRuntime.make(EgressLive.layer({ allowPrivate: true }))

let requests = 0
const server = createServer((request, response) => {
  requests++
  const [, status, to] = /^\/(30\d)\/(.*)$/u.exec(request.url ?? "") ?? []
  if (status !== undefined) response.writeHead(Number(status), { location: decodeURIComponent(to ?? "") }).end()
  else if (request.url === "/seen") response.end(JSON.stringify({ method: request.method, headers: request.headers }))
  else if (request.url === "/loop") response.writeHead(302, { location: "/loop" }).end()
  else if (request.url === "/redirect") response.writeHead(302, { location: "/landed" }).end()
  else response.end(`${request.method} ${String(request.headers["x-said"])}`)
})
let port: number

beforeAll(async () => {
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  ;({ port } = server.address() as AddressInfo)
})

afterAll(async () => {
  await Promise.all([guarded.dispose(), open.dispose()])
  server.close()
})

const check = (url: string): Promise<Exit.Exit<void, ForbiddenAddress>> =>
  guarded.runPromiseExit(Effect.flatMap(Egress, (egress) => egress.check(url)))

describe("a guarded service", () => {
  test.for([
    ["loopback", "127.0.0.1"],
    ["all of the loopback network", "127.255.0.3"],
    ["a name of this machine", "localhost"],
    ["the same with a dot at its end", "localhost."],
    ["another name of this machine", "x.LOCALHOST"],
    ["decimal", "2130706433"],
    ["octal", "0177.0.0.1"],
    ["octal in one number", "017700000001"],
    ["hexadecimal", "0x7f.0.0.1"],
    ["hexadecimal in one number", "0x7f000001"],
    ["two parts", "127.1"],
    ["a dot at the end", "127.0.0.1."],
    ["full-width digits", "１２７.０.０.１"],
    ["percent-encoded", "%31%32%37.0.0.1"],
    ["unspecified", "0.0.0.0"],
    ["this network", "0.1.2.3"],
    ["10/8", "10.0.0.1"],
    ["172.16/12", "172.31.255.254"],
    ["192.168/16", "192.168.1.1"],
    ["carrier-grade NAT", "100.64.0.1"],
    ["link-local and metadata", "169.254.169.254"],
    ["metadata in hexadecimal", "0xa9fea9fe"],
    ["metadata of a cloud in the shared range", "100.100.100.200"],
    ["metadata of a cloud in a reserved range", "192.0.0.192"],
    ["metadata of a cloud at a public address", "168.63.129.16"],
    ["benchmarking", "198.18.0.1"],
    ["multicast", "224.0.0.1"],
    ["reserved", "240.0.0.1"],
    ["broadcast", "255.255.255.255"],
    ["IPv6 loopback", "[::1]"],
    ["IPv6 loopback in full", "[0:0:0:0:0:0:0:1]"],
    ["IPv6 unspecified", "[::]"],
    ["mapped", "[::ffff:127.0.0.1]"],
    ["mapped in hexadecimal", "[::ffff:7f00:1]"],
    ["mapped metadata", "[::ffff:169.254.169.254]"],
    ["compatible", "[::127.0.0.1]"],
    ["compatible in hexadecimal", "[::7f00:1]"],
    ["translated", "[::ffff:0:127.0.0.1]"],
    ["NAT64", "[64:ff9b::7f00:1]"],
    ["local NAT64", "[64:ff9b:1::7f00:1]"],
    ["6to4", "[2002:7f00:1::]"],
    ["Teredo", "[2001:0:7f00:1::]"],
    ["unique local", "[fd12:3456::1]"],
    ["metadata at a unique local address", "[fd00:ec2::254]"],
    ["IPv6 link-local", "[fe80::1]"],
    ["site-local", "[fec0::1]"],
    ["IPv6 multicast", "[ff02::1]"],
    ["documentation", "[2001:db8::1]"]
  ])("refuses %s: %s", async ([, host]) => {
    const url = `http://${host}:${port}/`
    expect(await check(url)).toMatchObject({ _tag: "Failure" })
    const before = requests
    const { fetch } = await guarded.runPromise(Egress)
    await expect(fetch(url)).rejects.toBeInstanceOf(ForbiddenAddress)
    expect(requests).toBe(before)
  })

  test.for(["file:///etc/passwd", "ftp://example.com/", "data:text/plain,x", "no address", "http://", "//example.com"])(
    "refuses what is no http address: %s",
    async (url) => {
      expect(await check(url)).toMatchObject({ _tag: "Failure" })
      const { fetch } = await guarded.runPromise(Egress)
      await expect(fetch(url)).rejects.toBeInstanceOf(ForbiddenAddress)
    }
  )

  test.for(["https://93.184.215.14/", "http://[2606:4700::1111]:8080/x", "http://nowhere.invalid/"])(
    "lets pass: %s",
    async (url) => {
      expect(await check(url)).toMatchObject({ _tag: "Success" })
    }
  )

  test("calls no port of another protocol", async () => {
    expect(await check("https://93.184.215.14:25/")).toMatchObject({ _tag: "Failure" })
    expect(await check("https://93.184.215.14:8443/")).toMatchObject({ _tag: "Success" })
  })

  test("takes an embedded public address for what it is", () => {
    expect(isPublicAddress("64:ff9b::5db8:d70e")).toBe(true)
    expect(isPublicAddress("::ffff:93.184.215.14")).toBe(true)
    expect(isPublicAddress("no address")).toBe(false)
  })

  test("does not tell what it refused more than its host", async () => {
    const { fetch } = await guarded.runPromise(Egress)
    await expect(fetch("http://user:secret@127.0.0.1/path")).rejects.not.toThrow(/secret|path/)
  })
})

test("a service that may call private addresses sends method and headers, and follows redirects", async () => {
  const { fetch } = await open.runPromise(Egress)
  const answer = await fetch(`http://127.0.0.1:${port}/`, {
    method: "POST",
    headers: { "x-said": "this" },
    body: "body"
  })
  expect([answer.status, await answer.text()]).toEqual([200, "POST this"])
  expect(await (await fetch(`http://localhost:${port}/redirect`)).text()).toBe("GET undefined")
  expect((await fetch(`http://localhost:${port}/redirect`, { redirect: "manual" })).status).toBe(302)
})

describe("a redirect", () => {
  const send = async (status: number, to: string, init: RequestInit = {}) => {
    const { fetch } = await open.runPromise(Egress)
    const headers = {
      accept: "text/plain",
      authorization: "Bearer canary",
      cookie: "canary=1",
      "mcp-protocol-version": "1",
      "x-api-key": "canary",
      "x-team": "canary"
    }
    return fetch(`http://127.0.0.1:${port}/${status}/${encodeURIComponent(to)}`, { headers, ...init })
  }
  const seen = async (answer: Response) =>
    (await answer.json()) as { readonly method: string; readonly headers: Readonly<Record<string, string>> }

  test("keeps every header at the same origin", async () => {
    const { headers } = await seen(await send(302, "/seen"))
    expect(headers).toMatchObject({ authorization: "Bearer canary", "x-api-key": "canary", "x-team": "canary" })
  })

  test.for([301, 302, 303, 307, 308])("%i takes no header to another host that could be a key", async (status) => {
    const { headers } = await seen(await send(status, `http://localhost:${port}/seen`))
    expect(headers).toMatchObject({ accept: "text/plain", "mcp-protocol-version": "1" })
    expect(JSON.stringify(headers)).not.toContain("canary")
  })

  test("brings back no key that it has left behind", async () => {
    const back = encodeURIComponent(`http://127.0.0.1:${port}/seen`)
    const { headers } = await seen(await send(302, `http://localhost:${port}/302/${back}`))
    expect(JSON.stringify(headers)).not.toContain("canary")
  })

  test.for([
    [301, "GET"],
    [302, "GET"],
    [303, "GET"],
    [307, "POST"],
    [308, "POST"]
  ] as const)("%i makes of a POST a %s", async ([status, method]) => {
    const there = await seen(await send(status, "/seen", { method: "POST", body: "body" }))
    expect([there.method, there.headers["content-length"]]).toEqual([method, method === "GET" ? undefined : "4"])
  })

  test("is followed twenty times and no more, only to http addresses, and not when the caller says so", async () => {
    const around = `http://127.0.0.1:${port}`
    const { fetch } = await open.runPromise(Egress)
    await expect(send(302, "file:///etc/passwd")).rejects.toBeInstanceOf(ForbiddenAddress)
    await expect(send(302, "http://user:canary@localhost/")).rejects.toBeInstanceOf(ForbiddenAddress)
    await expect(send(302, "http://")).rejects.toThrow(/no address/u)
    await expect(send(302, "/seen", { redirect: "error" })).rejects.toThrow(/redirects/u)
    await expect(fetch(`${around}/loop`)).rejects.toThrow(/20 times/u)
  })
})
