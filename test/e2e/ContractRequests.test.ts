import fc from "fast-check"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { errorOf, pathsOf, replyOf } from "../adapters/http/Replies.ts"
import { expectArrival, fieldsBeyond, type Wire } from "../adapters/vendors/Lowering.ts"
import { brokenRequests, chatRequests } from "../domain/completion/ChatRequests.ts"
import { isObject, type Json, type JsonObject, render, write } from "../domain/completion/Rules.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"

/**
 * What the contract allows is accepted and reaches the vendor; what it does not allow gets a 400 that names the field,
 * and no vendor is asked. On both dialects: a compatible server of the operator's, and OpenAI itself.
 */
describe("chat requests over HTTP", () => {
  let loose: FakeOpenAi
  let openAi: FakeOpenAi
  let service: ServiceProcess
  let key: string

  beforeAll(async () => {
    loose = await startFakeOpenAi({ strict: false })
    openAi = await startFakeOpenAi()
    service = await prepareService({
      fake: loose,
      env: { OPENAI_API_KEY: openAi.apiKey, OPENAI_BASE_URL: openAi.baseUrl, RATE_LIMIT_CHAT: "100000" }
    })
    await service.start()
    key = service.printedKey()
  })
  afterAll(async () => {
    await service.remove()
    await loose.close()
    await openAi.close()
  })
  beforeEach(() => {
    loose.clear()
    openAi.clear()
  })

  const post = async (body: string) =>
    replyOf(
      await fetch(`${service.baseUrl}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body
      })
    )

  /** A request for a model that is served, by the only way to reach it. */
  const of = (request: JsonObject, model: string): JsonObject => ({
    ...request,
    model,
    ...("access_method" in request ? { access_method: "service" } : {})
  })

  const arrived = (fake: FakeOpenAi): JsonObject => {
    const body: Json = JSON.parse(fake.requests.at(-1)?.text ?? "null")
    return isObject(body) ? body : expect.fail("nothing arrived")
  }

  const compatible: Wire = { model: "gpt-fake", extensions: true, outputLimit: "max_tokens" }
  const reference: Wire = { model: "gpt-4.1-nano", extensions: false, outputLimit: "max_completion_tokens" }

  test("are accepted and reach a compatible vendor whole", async () => {
    await fc.assert(
      fc.asyncProperty(chatRequests, async (given) => {
        const request = of(given, "fake-model")
        const before = loose.requests.length
        const { status, text } = await post(write(request))
        expect({ status, text: status === 200 ? "" : text }).toEqual({ status: 200, text: "" })
        expect(loose.requests).toHaveLength(before + 1)
        expectArrival(JSON.parse(write(request)), arrived(loose), compatible)
      }),
      { numRuns: 60 }
    )
  })

  test("are accepted and reach OpenAI whole, or name the field that it has not", async () => {
    await fc.assert(
      fc.asyncProperty(chatRequests, async (given) => {
        const request = of(given, reference.model)
        const beyond = fieldsBeyond(request)
        const before = openAi.log.length
        const reply = await post(write(request))
        if (beyond.length > 0) {
          expect(pathsOf(reply).toSorted()).toEqual(beyond.toSorted().slice(0, 20))
          expect(openAi.log).toHaveLength(before)
        } else {
          expect({ status: reply.status, text: reply.status === 200 ? "" : reply.text }).toEqual({
            status: 200,
            text: ""
          })
          expect(openAi.log).toHaveLength(before + 1)
          expectArrival(JSON.parse(write(request)), arrived(openAi), reference)
        }
      }),
      { numRuns: 60 }
    )
  })

  test("are refused for one wrong field, which the error names, and reach nobody", async () => {
    await fc.assert(
      fc.asyncProperty(chatRequests, fc.nat(), async (given, choice) => {
        const ways = brokenRequests(of(given, "fake-model"))
        const { path, value, wrong } = ways[choice % ways.length] ?? expect.fail("there is no way to break it")
        expect({ wrong, value, paths: pathsOf(await post(write(value))) }).toEqual({
          wrong,
          value,
          paths: [render(path)]
        })
        expect(loose.log).toHaveLength(0)
      }),
      { numRuns: 150 }
    )
  })

  test("are refused for an access method that the model does not have, and a model that is not there", async () => {
    const request = { model: "fake-model", messages: [{ role: "user", content: "Hi" }] }
    for (const access_method of ["vendor-a-api-key", "vendor-b-api-key", "vendor-b-chat"]) {
      expect(pathsOf(await post(write({ ...request, access_method })))).toEqual(["access_method"])
    }
    expect(errorOf(await post(write({ ...request, model: "none" })), "model_not_found").message).toContain(`"none"`)
    expect(loose.log).toHaveLength(0)
  })

  test("with thousands of mistakes are refused at once, for the first", async () => {
    const body = `{"model":"fake-model","messages":[${"7,".repeat(400_000)}7]}`
    const asked = Date.now()
    expect(pathsOf(await post(body))).toEqual(["messages[0]"])
    expect(Date.now() - asked).toBeLessThan(2_000)
  })
})
