import { Schema } from "effect"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { fieldNames } from "../domain/completion/ChatRequests.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"

/** Section 9 of the contract and of the decisions: what describes the service, and tells how it is. */
describe("the operations of the service", () => {
  let service: ServiceProcess
  let key: string

  beforeAll(async () => {
    service = await prepareService({ env: { RATE_LIMIT_CHAT: "1234" } })
    await service.start()
    key = service.printedKey()
  })
  afterAll(() => service.remove())

  const get = async (path: string) => {
    const response = await fetch(`${service.baseUrl}${path}`)
    expect(response.status).toBe(200)
    expect(response.headers.get("x-request-id")).toMatch(/^\S+$/)
    return { type: response.headers.get("content-type") ?? "", text: await response.text() }
  }

  describe("/openapi.json", () => {
    const description = async () => {
      const { text, type } = await get("/openapi.json")
      expect(type).toMatch(/^application\/json/)
      const { paths, ...rest } = anyPaths(JSON.parse(text))
      // The runtime's have their own tests.
      const gateway = Object.entries(paths).filter(([path]) => path.startsWith("/v1/"))
      return openApi({ ...rest, paths: Object.fromEntries(gateway) })
    }

    test("is OpenAPI 3.1.0 of the interface 1.0.0", async () => {
      const { components, info, openapi, paths } = await description()
      expect(openapi).toBe("3.1.0")
      expect(info).toMatchObject({ version: "1.0.0", title: expect.stringMatching(/\S/) })
      expect(Object.keys(paths).toSorted()).toEqual(["/v1/billing/summary", "/v1/chat/completions", "/v1/models"])
      expect(Object.values(components.securitySchemes)).toEqual([
        { type: "http", scheme: expect.stringMatching(/^bearer$/i) }
      ])
    })

    test.each([
      [
        "/v1/models",
        "get",
        "listModels",
        "list models",
        { limit: 600, periodSeconds: 60, policy: "model_catalog_read" }
      ],
      [
        "/v1/billing/summary",
        "get",
        "getBillingSummary",
        "billing summary",
        { limit: 120, periodSeconds: 60, policy: "billing_summary_read" }
      ],
      [
        "/v1/chat/completions",
        "post",
        "createChatCompletion",
        "chat completion",
        { limit: 1_234, periodSeconds: 60, policy: "chat_completions_create" }
      ]
    ] as const)(
      "has %s with its rate as it is configured, its errors and its key",
      async (path, method, id, summary, rate) => {
        const { components, paths } = await description()
        expect(Object.keys(paths[path] ?? {})).toEqual([method])
        const operation = paths[path]?.[method] ?? expect.fail("the operation is missing")
        expect(operation).toMatchObject({ operationId: id, summary, "x-service-rate-limit": rate })
        const errors = ["400", "401", "402", "403", "404", "409", "429", "500", "502", "503"]
        expect(Object.keys(operation.responses).toSorted()).toEqual(["200", ...errors])
        for (const status of errors) {
          const { $ref } = reference(operation.responses[status]?.content?.["application/json"]?.schema)
          expect(components.schemas[$ref.replace("#/components/schemas/", "")]).toMatchObject({
            additionalProperties: false,
            required: ["error"],
            properties: {
              error: { additionalProperties: false, required: ["code", "message", "requestId", "retryable"] }
            }
          })
        }
        expect(operation.security).toEqual([{ [Object.keys(components.securitySchemes)[0] ?? ""]: [] }])
      }
    )

    test("has every field of a request and both forms of its answer", async () => {
      const { post } = (await description()).paths["/v1/chat/completions"] ?? {}
      const body = requestBody(post?.requestBody).content["application/json"].schema
      expect(Object.keys(body.properties).toSorted()).toEqual(fieldNames.toSorted())
      expect(body).toMatchObject({ required: ["model", "messages"], additionalProperties: false })
      expect(Object.keys(post?.responses["200"]?.content ?? {}).toSorted()).toEqual([
        "application/json",
        "text/event-stream"
      ])
    })

    test("refers to nothing that it does not have", async () => {
      const { text } = await get("/openapi.json")
      const { components } = anyPaths(JSON.parse(text))
      const names = [...text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)].map(([, name]) => name)
      expect(names.length).toBeGreaterThan(0)
      expect(Object.keys(components.schemas)).toEqual(expect.arrayContaining(names))
    })
  })

  test("/docs is a page that fetches nothing from elsewhere", async () => {
    const { text, type } = await get("/docs")
    expect(type).toMatch(/^text\/html/)
    expect(text).toContain("createChatCompletion")
    expect(text).toContain(`"withDefaultFonts":false`)
    const page = text.replaceAll(/<script>.*?<\/script>/gs, "")
    expect(page).not.toMatch(/\b(?:src|href)=|@import|url\(/)
  })

  test.each(["/health/live", "/health/ready"])("%s answers anybody", async (path) => {
    const { text, type } = await get(path)
    expect(type).toMatch(/^application\/json/)
    expect(JSON.parse(text)).toEqual({ status: "ok" })
  })

  test("/metrics is Prometheus text, and counts what was asked", async () => {
    const ask = (path: string, init: RequestInit = {}) =>
      fetch(`${service.baseUrl}${path}`, { ...init, headers: { authorization: `Bearer ${key}` } }).then((response) =>
        response.text()
      )
    const body = `{"model":"echo","messages":[{"role":"user","content":"Hi"}]}`
    await Promise.all([
      ask("/v1/models"),
      ask("/v1/models?limit=1"),
      ask("//v1/models/"),
      ask("/v1/chat/completions", { method: "POST", body }),
      ask("/v1/chat/completions", { method: "POST", body: "{" }),
      ...Array.from({ length: 20 }, (_, index) => ask(`/v1/nothing/${index}`))
    ])
    const { text, type } = await get("/metrics")
    expect(type).toMatch(/^text\/plain; version=0\.0\.4/)
    const samples = samplesOf(text)
    const count = (labels: Record<string, string>) =>
      samples.find(
        ({ name, ...sample }) =>
          name === "http_requests_total" &&
          Object.entries(labels).every(([label, value]) => sample.labels[label] === value)
      )?.value
    expect(count({ method: "GET", route: "/v1/models", status: "200" })).toBe(3)
    expect(count({ method: "POST", route: "/v1/chat/completions", status: "200" })).toBe(1)
    expect(count({ method: "POST", route: "/v1/chat/completions", status: "400" })).toBe(1)
    // However many paths are tried, they are one series.
    expect(count({ method: "GET", route: "other", status: "404" })).toBe(20)

    for (const { labels, name, value } of samples.filter(({ name }) => name.endsWith("_count"))) {
      const same = samples.filter(
        (sample) =>
          sample.name === name.replace(/_count$/, "_bucket") &&
          Object.entries(labels).every(([label, value]) => sample.labels[label] === value)
      )
      const values = same.map((sample) => sample.value)
      expect(values).toEqual(values.toSorted((a, b) => a - b))
      expect(same.at(-1)).toMatchObject({ labels: { le: "+Inf" }, value })
    }
    expect(text).not.toContain(key)
  })
})

const label = /^([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"$/

/** The samples of a text in Prometheus' exposition format, every line of which has to be of that format. */
const samplesOf = (text: string) => {
  expect(text.endsWith("\n")).toBe(true)
  const types = new Map<string, string>()
  return text
    .trimEnd()
    .split("\n")
    .flatMap((line) => {
      const [, type, metric = "", rest = ""] = /^# (HELP|TYPE) ([a-zA-Z_:][\w:]*) ?(.*)$/.exec(line) ?? []
      if (type === "HELP") return []
      if (type === "TYPE") {
        expect(rest).toMatch(/^(counter|gauge|histogram|summary|untyped)$/)
        expect(types.has(metric)).toBe(false)
        types.set(metric, rest)
        return []
      }
      const [, name = "", labels = "", value = ""] =
        /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|\+?Inf)|NaN)$/i.exec(line) ??
        expect.fail(line)
      expect(types.has(name) || types.has(name.replace(/_(?:bucket|sum|count|total)$/, ""))).toBe(true)
      const pairs =
        labels === ""
          ? []
          : labels.split(/,(?=[a-zA-Z_]\w*=")/).map((pair) => {
              const [, key = "", text = ""] = label.exec(pair) ?? expect.fail(`no label: ${pair}`)
              return [key, text] as const
            })
      return [{ name, labels: Object.fromEntries(pairs), value: Number(value.replace("Inf", "Infinity")) }]
    })
}

const Operation = Schema.Struct({
  operationId: Schema.String,
  summary: Schema.String,
  "x-service-rate-limit": Schema.Struct({ limit: Schema.Int, periodSeconds: Schema.Int, policy: Schema.String }),
  security: Schema.Array(Schema.Record(Schema.String, Schema.Array(Schema.String))),
  requestBody: Schema.optionalKey(Schema.Unknown),
  responses: Schema.Record(
    Schema.String,
    Schema.Struct({
      description: Schema.NonEmptyString,
      content: Schema.optionalKey(Schema.Record(Schema.String, Schema.Struct({ schema: Schema.Unknown })))
    })
  )
})

const openApi = Schema.decodeUnknownSync(
  Schema.Struct({
    openapi: Schema.String,
    info: Schema.Struct({ title: Schema.String, version: Schema.String }),
    paths: Schema.Record(Schema.String, Schema.Record(Schema.String, Operation)),
    components: Schema.Struct({
      schemas: Schema.Record(Schema.String, Schema.Unknown),
      securitySchemes: Schema.Record(Schema.String, Schema.Unknown)
    })
  })
)

const reference = Schema.decodeUnknownSync(Schema.Struct({ $ref: Schema.String }))

const requestBody = Schema.decodeUnknownSync(
  Schema.Struct({
    required: Schema.Literal(true),
    content: Schema.Struct({
      "application/json": Schema.Struct({
        schema: Schema.Struct({
          properties: Schema.Record(Schema.String, Schema.Unknown),
          required: Schema.Array(Schema.String),
          additionalProperties: Schema.Boolean
        })
      })
    })
  })
)

const anyPaths = Schema.decodeUnknownSync(
  Schema.StructWithRest(
    Schema.Struct({
      paths: Schema.Record(Schema.String, Schema.Unknown),
      components: Schema.StructWithRest(Schema.Struct({ schemas: Schema.Record(Schema.String, Schema.Unknown) }), [
        Schema.Record(Schema.String, Schema.Unknown)
      ])
    }),
    [Schema.Record(Schema.String, Schema.Unknown)]
  )
)
