import { request as httpRequest } from "node:http"
import { text as textOf } from "node:stream/consumers"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { exchange, repliesIn } from "../adapters/http/RawHttp.ts"
import { errorOf, pathsOf, type Reply, replyOf } from "../adapters/http/Replies.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"

const MiB = 1024 * 1024
const chat = "/v1/chat/completions"
const body = `{"model":"fake-model","messages":[{"role":"user","content":"Hi"}]}`

/** What reaches no handler, or should not: everything is answered, and in the envelope of section 2.4. */
describe("the edges of HTTP", () => {
  let fake: FakeOpenAi
  let service: ServiceProcess
  let bearer: string

  beforeAll(async () => {
    fake = await startFakeOpenAi({ strict: false })
    service = await prepareService({ fake, env: { RATE_LIMIT_CHAT: "100000", RATE_LIMIT_MODELS: "100000" } })
    await service.start()
    bearer = `Bearer ${service.printedKey()}`
  })
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })
  beforeEach(() => fake.clear())

  const raw = (...parts: ReadonlyArray<string | Uint8Array>) => exchange(service.baseUrl, parts)

  /** A request whose target is sent as it is. */
  const target = async (method: string, target: string) => {
    const [reply] = repliesIn(
      await raw(`${method} ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: ${bearer}\r\nConnection: close\r\n\r\n`)
    )
    return reply ?? expect.fail("no answer")
  }

  const post = async (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) =>
    replyOf(
      await fetch(`${service.baseUrl}${chat}`, {
        method: "POST",
        headers: { authorization: bearer, ...headers },
        body
      })
    )

  /** A chat request as Node sends it, which tells when the server answers before the body has ended. */
  const upload = async (
    parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    headers: Record<string, string> = {}
  ) => {
    const { hostname, port } = new URL(service.baseUrl)
    const request = httpRequest({ hostname, port, path: chat, method: "POST", agent: false })
    for (const [name, value] of Object.entries({ authorization: bearer, ...headers })) request.setHeader(name, value)
    const answered = Promise.withResolvers<Reply>()
    let isAnswered = false
    request.once("error", answered.reject)
    request.once("response", (response) => {
      isAnswered = true
      // What is written after the answer has nobody to read it.
      request.removeAllListeners("error").on("error", () => undefined)
      textOf(response).then(
        (text) =>
          answered.resolve({
            status: response.statusCode ?? 0,
            headers: new Headers(
              Object.entries(response.headers).map(([name, value]): [string, string] => [name, String(value)])
            ),
            text
          }),
        answered.reject
      )
    })
    for await (const part of parts) {
      if (request.destroyed || isAnswered) break
      if (!request.write(part))
        await Promise.race([new Promise((resolve) => request.once("drain", resolve)), answered.promise])
    }
    request.end()
    return answered.promise
  }

  describe("paths", () => {
    test.each([
      "/v1",
      "/v1/",
      "/v1/nothing",
      "/v1/models/gpt-4",
      "/v1/chat",
      "/v1/chat/completions/x",
      "/v2/models",
      "/V1/models",
      "/v1/Models",
      "/v1/../v1/models",
      "/v1/models%2f",
      "/v1%2fmodels",
      "/v1/%zz",
      "/v1/%",
      "/v1/%E0%A4%A",
      "/v1/models/%ff",
      "/v1/%00",
      "/v1/<script>",
      `/v1/${"x".repeat(8_000)}`,
      "/",
      "*"
    ])("that nobody serves are a 404: %s", async (path) => {
      for (const method of ["GET", "POST"]) {
        const { message } = errorOf(await target(method, path), "not_found")
        expect(message).toContain(path === "/v1/" ? "/v1" : path.slice(0, 1_000))
      }
    })

    test.each([
      "//v1/models",
      "/v1//models",
      "/v1/models/",
      "/v1/models?x=%zz&&=",
      "/v1/%6dodels",
      "http://x/v1/models"
    ])("that mean the same as another are served like it: %s", async (path) => {
      expect((await target("GET", path)).status).toBe(200)
    })

    test.each([chat, "/v1/models", "/v1/billing/summary", "//v1/models", "/v1/models/?x", "http://x/v1/models"])(
      "that are served take their own methods only: %s",
      async (path) => {
        const allowed = path === chat ? ["POST"] : ["GET", "HEAD"]
        for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "QUERY"]) {
          if (allowed.includes(method)) continue
          const reply = await target(method, path)
          errorOf(reply, "method_not_allowed")
          expect(reply.headers.get("allow")?.split(", ")).toEqual(allowed)
        }
        expect(fake.log).toHaveLength(0)
      }
    )

    test("answer HEAD like GET, without a body", async () => {
      const get = await target("GET", "/v1/models")
      const head = await target("HEAD", "/v1/models")
      expect(head).toMatchObject({ status: 200, text: "" })
      expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"))
      expect(await target("HEAD", "/v1/nothing")).toMatchObject({ status: 404, text: "" })
      expect(await target("HEAD", chat)).toMatchObject({ status: 405, text: "" })
    })
  })

  describe("bodies", () => {
    test.each([
      ["nothing", ""],
      ["white space", " \n"],
      ["half an object", `{"model":`],
      ["two objects", `${body}${body}`],
      ["a comment", `/* */${body}`],
      ["NaN", body.replace(`"Hi"`, "NaN")],
      ["a lone quote", `"`],
      ["a form", "model=fake-model"],
      ["invalid UTF-8", Buffer.from(body).fill(0xff, 60, 61)],
      ["an overlong form of UTF-8", Buffer.concat([Buffer.from(body.slice(0, 60)), Buffer.from([0xc0, 0xaf])])],
      ["UTF-16", Buffer.from(body, "utf16le")],
      ["something compressed", Buffer.from([0x1f, 0x8b, 8, 0, 0, 0])]
    ])("that are no JSON are refused: %s", async (_, body) => {
      errorOf(await post(body), "invalid_json")
      expect(fake.log).toHaveLength(0)
    })

    test.each(["null", "true", "7", `"text"`, "[]", `[${body}]`])(
      "that are no object are refused: %s",
      async (body) => {
        expect(pathsOf(await post(body))).toEqual([""])
      }
    )

    test.each(["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8", "nonsense"])(
      "are read as JSON whatever they are called: %s",
      async (type) => {
        expect((await post(body, { "content-type": type })).status).toBe(200)
      }
    )

    test("may begin with a byte order mark", async () => {
      expect((await post(`\ufeff${body}`)).status).toBe(200)
    })

    /** A request that is nested so deep: the body itself is the first level. */
    const nested = (levels: number, open = `{"a":`, close = "}") =>
      `${body.slice(0, -1)},"reasoning":{"a":${open.repeat(levels - 3)}${open === "[" ? "[]" : "{}"}${close.repeat(levels - 3)}}}`

    test("may have many values and no more, which is found out in moderate time", async () => {
      const of = (values: number) => `${body.slice(0, -1)},"reasoning":{"a":["\\"[,\\\\",${"0,".repeat(values)}0]}}`
      expect((await post(of(499_000))).status).toBe(200)
      expect(pathsOf(await post(of(500_000)))).toEqual([""])
      const start = performance.now()
      expect(pathsOf(await post(of(16_000_000)))).toEqual([""])
      expect(performance.now() - start).toBeLessThan(10_000)
    })

    test("with brackets that never close are not even read", async () => {
      expect(pathsOf(await post("[".repeat(1_000_000)))).toEqual([""])
    })

    test("may be nested 128 levels deep and no deeper", async () => {
      for (const [open, close] of [
        [`{"a":`, "}"],
        ["[", "]"]
      ] as const) {
        expect((await post(nested(128, open, close))).status).toBe(200)
        for (const levels of [129, 130, 100_000]) {
          expect(pathsOf(await post(nested(levels, open, close)))).toEqual([""])
        }
      }
      expect(pathsOf(await post("[".repeat(100_000) + "]".repeat(100_000)))).toEqual([""])
      expect(fake.log).toHaveLength(2)
    })

    test("hold strings with NUL, half a surrogate pair and the names of what objects inherit", async () => {
      const odd = `{"model":"fake-model","messages":[{"role":"user","content":"\\u0000\\ud83d"}],"user":"__proto__"}`
      expect((await post(odd)).status).toBe(200)
      expect(fake.requests[0]?.body).toMatchObject({ messages: [{ content: "\0\ud83d" }], user: "__proto__" })
      expect(pathsOf(await post(body.replace("{", `{"__proto__":{"stream":true},`)))).toEqual(["__proto__"])
    })

    test("are not quoted at length", async () => {
      const long = "x".repeat(MiB)
      const fields = Array.from({ length: 1_000 }, (_, index) => `"${index}":1`).join()
      for (const [request, code] of [
        [`{"model":"${long}","messages":[{"role":"user","content":"Hi"}]}`, "model_not_found"],
        [body.replace("{", `{"${long}":1,`), "invalid_request"],
        [body.replace("{", `{${fields},`), "invalid_request"]
      ] as const) {
        const reply = await post(request)
        errorOf(reply, code)
        expect(reply.text.length).toBeLessThan(8 * 1024)
      }
    })

    describe("of 32 MiB", () => {
      const limit = 32 * MiB
      const filled = (bytes: number) => {
        const [head = "", tail = ""] =
          `{"model":"echo","max_tokens":1,"messages":[{"role":"user","content":"|"}]}`.split("|")
        return Buffer.concat([
          Buffer.from(head),
          Buffer.alloc(bytes - head.length - tail.length, "a"),
          Buffer.from(tail)
        ])
      }
      const parts = (whole: Buffer) =>
        Array.from({ length: Math.ceil(whole.length / MiB) }, (_, index) =>
          whole.subarray(index * MiB, (index + 1) * MiB)
        )

      test.each([true, false])("are taken, and not one byte more (with their length said before: %s)", async (said) => {
        for (const [bytes, status] of [
          [limit, 200],
          [limit + 1, 413]
        ] as const) {
          const reply = await upload(parts(filled(bytes)), said ? { "content-length": String(bytes) } : {})
          expect(reply.status).toBe(status)
          if (status === 413) errorOf(reply, "payload_too_large")
        }
      })

      test("are refused before they are sent, when the length is said and the client asks first", async () => {
        const [reply] = repliesIn(
          await raw(
            `POST ${chat} HTTP/1.1\r\nHost: x\r\nAuthorization: ${bearer}\r\nContent-Length: ${limit + 1}\r\n` +
              `Expect: 100-continue\r\n\r\n`
          )
        )
        errorOf(reply ?? expect.fail("no answer"), "payload_too_large")
      })

      test("are not waited for when they never end", async () => {
        async function* endless() {
          const part = Buffer.alloc(MiB, " ")
          for (let sent = 0; sent < 200; sent++) yield part
        }
        errorOf(await upload(endless()), "payload_too_large")
      })

      test("may hold one long file", async () => {
        const data = "A".repeat(31 * MiB)
        const content = [{ type: "file", file: { file_data: data } }]
        const reply = await post(JSON.stringify({ model: "echo", messages: [{ role: "user", content }] }))
        expect(reply.status).toBe(200)
        const wrong = [{ type: "image_url", image_url: { url: data } }]
        expect(
          pathsOf(await post(JSON.stringify({ model: "echo", messages: [{ role: "user", content: wrong }] })))
        ).toEqual(["messages[0].content[0].image_url.url"])
      })
    })
  })

  describe("request ids", () => {
    const idsOf = async (given: string | undefined, path: string, method = "GET") => {
      const line = given === undefined ? "" : `X-Request-Id: ${given}\r\n`
      const [reply] = repliesIn(
        await raw(
          `${method} ${path} HTTP/1.1\r\nHost: x\r\n${line}Authorization: ${bearer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`
        )
      )
      return reply ?? expect.fail("no answer")
    }

    test.each(["a", "req-1234", "!~", "x".repeat(128), `{"a":1}`])("of callers are kept: %s", async (id) => {
      const ok = await idsOf(id, "/v1/models")
      expect(ok.headers.get("x-request-id")).toBe(id)
      expect(errorOf(await idsOf(id, "/v1/nothing"), "not_found").requestId).toBe(id)
      expect(errorOf(await idsOf(id, chat, "POST"), "invalid_json").requestId).toBe(id)
    })

    test.each([undefined, "", " ", "two words", "x".repeat(129), "ä", "tab\there"])(
      "of another form are replaced: %s",
      async (id) => {
        const ids = new Set<string>()
        for (const reply of [
          await idsOf(id, "/v1/models"),
          await idsOf(id, "/v1/models"),
          await idsOf(id, "/health/live")
        ]) {
          ids.add(reply.headers.get("x-request-id") ?? "")
        }
        expect(ids.size).toBe(3)
        for (const made of ids) expect(made).toMatch(/^[\x21-\x7e]{8,128}$/)
        errorOf(await idsOf(id, "/v1/nothing"), "not_found")
      }
    )

    test("stand in the log with the answer", async () => {
      await idsOf("find-me-in-the-log", "/v1/models")
      await expect.poll(() => service.logs().stdout).toContain("find-me-in-the-log")
    })
  })

  describe("what is no HTTP", () => {
    test.each([
      ["a word", "hello\r\n\r\n", 400],
      ["an unknown method", "BREW /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 400],
      ["a header without colon", "GET /v1/models HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400],
      ["a header with NUL", "GET /v1/models HTTP/1.1\r\nHost: x\r\nX-A: \0\r\n\r\n", 400],
      ["two lengths", `POST ${chat} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n`, 400],
      ["a length that is none", `POST ${chat} HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n`, 400],
      [
        "a length and chunks",
        `POST ${chat} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
        400
      ],
      [
        "a chunk that is none",
        `POST ${chat} HTTP/1.1\r\n$AUTH\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
        400
      ],
      ["a tunnel", "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n", 400],
      ["no host", "GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n", 400],
      ["a long header", `GET /v1/models HTTP/1.1\r\nHost: x\r\nX-A: ${"a".repeat(40_000)}\r\n\r\n`, 431],
      ["a long path", `GET /v1/${"a".repeat(40_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 431]
    ])("has an envelope too: %s", async (_, bytes, status) => {
      const [reply, ...more] = repliesIn(await raw(bytes.replace("$AUTH", `Authorization: ${bearer}`)))
      expect(more).toEqual([])
      expect(reply?.status).toBe(status)
      errorOf(reply ?? expect.fail("no answer"), status === 431 ? "payload_too_large" : "invalid_request")
    })

    test("ends a connection without a word in the middle of an answer", async () => {
      const stream = `{"model":"echo","stream":true,"messages":[{"role":"user","content":"${"word ".repeat(200)}"}]}`
      const sent = await raw(
        `POST ${chat} HTTP/1.1\r\nHost: x\r\nAuthorization: ${bearer}\r\nContent-Length: ${stream.length}\r\n\r\n${stream}`,
        "",
        "",
        "no HTTP\r\n\r\n"
      )
      expect(sent).toContain("chat.completion.chunk")
      expect(sent).not.toContain("invalid_request")
    })

    test("has one after a good request on the same connection as well", async () => {
      const good = `GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: ${bearer}\r\n\r\n`
      const sent = await exchange(service.baseUrl, [good, "no HTTP\r\n\r\n"], { pause: 300 })
      const [first, second, ...more] = repliesIn(sent)
      expect(first?.status).toBe(200)
      errorOf(second ?? expect.fail("no answer"), "invalid_request")
      expect(more).toEqual([])
    })

    test("disturbs nobody else", async () => {
      expect((await post(body)).status).toBe(200)
    })
  })

  describe("uncommon HTTP", () => {
    const head = (extra = "", version = "1.1") =>
      `POST ${chat} HTTP/${version}\r\nHost: x\r\nAuthorization: ${bearer}\r\nContent-Length: ${body.length}\r\n${extra}\r\n`
    const close = "Connection: close\r\n"

    test("asks before it sends the body", async () => {
      const sent = await raw(head(`Expect: 100-continue\r\n${close}`), body)
      expect(sent).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/)
    })

    test("is not asked for the body of a request that is refused anyway", async () => {
      const sent = await raw(head("Expect: 100-continue\r\n").replace(bearer, "Bearer none"))
      errorOf(repliesIn(sent)[0] ?? expect.fail("no answer"), "unauthorized")
      expect(sent).not.toContain("100 Continue")
    })

    test("expects what nobody knows", async () => {
      expect(repliesIn(await raw(head(`Expect: the-unexpected\r\n${close}`), body))[0]?.status).toBe(200)
    })

    test("is of version 1.0, without a host", async () => {
      const [reply] = repliesIn(await raw(head("", "1.0").replace("Host: x\r\n", ""), body))
      expect(reply?.status).toBe(200)
      expect(reply?.headers.get("connection")).toBe("close")
    })

    test("sends several requests at once, which are answered in order", async () => {
      const id = (id: string) => `X-Request-Id: ${id}\r\n`
      const one = `GET /v1/nothing HTTP/1.1\r\nHost: x\r\n${id("one")}\r\n`
      const sent = await raw(
        one + head(id("two")) + body + head(id("three")) + "x".repeat(body.length) + head(id("four") + close) + body
      )
      const replies = repliesIn(sent)
      expect(replies.map(({ headers }) => headers.get("x-request-id"))).toEqual(["one", "two", "three", "four"])
      expect(replies.map(({ status }) => status)).toEqual([404, 200, 400, 200])
    })

    describe("of a stream", () => {
      const said = "Grüße, 你好 🙂, an end"
      const stream = JSON.stringify({ model: "echo", stream: true, messages: [{ role: "user", content: said }] })
      const asked = (version: string) =>
        `POST ${chat} HTTP/${version}\r\nHost: x\r\nAuthorization: ${bearer}\r\nContent-Length: ${Buffer.byteLength(stream)}\r\n\r\n${stream}`

      const contentOf = (events: string) =>
        Array.from(events.matchAll(/"content":("(?:[^"\\]|\\.)*")/g), ([, content = ""]) => String(JSON.parse(content)))

      test("asks for chunks: they have as many bytes as they say, and the next answer follows them", async () => {
        const next = `GET /v1/nothing HTTP/1.1\r\nHost: x\r\n${close}\r\n`
        const sent = Buffer.from(await raw(asked("1.1") + asked("1.1") + next))
        let at = 0
        const upTo = (end: string) => {
          const from = at
          at = sent.indexOf(end, from) + end.length
          return sent.toString("utf8", from, at - end.length)
        }
        for (let answer = 0; answer < 2; answer++) {
          expect(upTo("\r\n\r\n")).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*transfer-encoding: chunked/i)
          let events = ""
          for (let length = -1; length !== 0;) {
            length = Number.parseInt(upTo("\r\n"), 16)
            events += sent.toString("utf8", at, at + length)
            at += length
            expect(upTo("\r\n")).toBe("")
          }
          expect(contentOf(events).join("")).toContain(said)
          expect(events.endsWith("data: [DONE]\n\n")).toBe(true)
        }
        expect(upTo("\r\n")).toBe("HTTP/1.1 404 Not Found")
      })

      test("is of version 1.0: it gets the stream as it is, until the connection ends", async () => {
        const [reply] = repliesIn(await raw(asked("1.0")))
        expect(reply?.headers.has("transfer-encoding")).toBe(false)
        expect(reply?.text).toMatch(/^data: \{[^]*\n\ndata: \[DONE\]\n\n$/)
        expect(contentOf(reply?.text ?? "").join("")).toContain(said)
      })
    })

    test.each(["h2c", "websocket", "TLS/1.0"])("offers to speak %s instead", async (protocol) => {
      const offer = `Connection: Upgrade\r\nUpgrade: ${protocol}\r\n`
      const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
      const chunked = head(offer).replace(/Content-Length: \d+/, "Transfer-Encoding: chunked") + chunks
      const sent = await exchange(service.baseUrl, [head(offer) + body, chunked, head(offer + close) + body], {
        pause: 300
      })
      expect(repliesIn(sent).map(({ status }) => status)).toEqual([200, 200, 200])
    })

    test("comes in pieces of a byte", async () => {
      const [reply] = repliesIn(await exchange(service.baseUrl, [...head(close), ...body], { pause: 0 }))
      expect(reply?.status).toBe(200)
    })

    test("leaves in the middle of its body, and nothing else happens", async () => {
      const { hostname, port } = new URL(service.baseUrl)
      for (const headers of [{ "content-length": "1000" }, { "transfer-encoding": "chunked" }]) {
        const request = httpRequest({
          hostname,
          port,
          path: chat,
          method: "POST",
          headers: { authorization: bearer, ...headers }
        })
        request.on("error", () => undefined)
        request.write(`{"model":"fake-model","messages":[`)
        await sleep(50)
        request.destroy()
      }
      await sleep(100)
      expect(fake.log).toHaveLength(0)
      expect(service.logs().stdout).not.toMatch(/"level":"(ERROR|FATAL)"/)
      expect((await post(body)).status).toBe(200)
    })
  })

  test("every error says whether to try again, to browsers and machines alike", async () => {
    const replies = [
      await target("GET", "/v1/nothing"),
      await target("PUT", chat),
      await post("{"),
      await post("{}"),
      await post(body.replace("fake-model", "none")),
      await replyOf(await fetch(`${service.baseUrl}/v1/models`))
    ]
    expect(replies.map(({ headers }) => headers.get("x-should-retry"))).toEqual(replies.map(() => "false"))
  })
})
