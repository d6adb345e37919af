import { Option } from "effect"
import { assert, expect, it } from "vitest"
import { attach, detach, payloadOf } from "../../../src/domain/completion/Continuation.ts"

it("what a vendor needs back travels in the id, and is taken off it for the vendor", () => {
  const payload = { signature: "ünïcödé ✓ +/=", thoughts: [1, null, { deep: true }] }
  const id = attach("call_1", payload)
  expect(id).toMatch(/^call_1~r1~[A-Za-z0-9_-]+$/)
  assert.strictEqual(detach(id), "call_1")
  expect(payloadOf(id)).toEqual(Option.some(payload))
})

it.each(["call_1", "", "call_1~r1~", "call_1~r1~!!", "call_1~r1~bm8gSlNPTg"])("nothing came with %j", (id) => {
  expect(payloadOf(id)).toEqual(Option.none())
  assert.strictEqual(detach(id), id.replace(/~r1~.*$/, ""))
})
