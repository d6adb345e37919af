import { describe, expect, test } from "vitest"
import { changedKeys, needsRestart } from "../../../src/domain/agent/ConfigDiff.ts"

describe("the top-level keys that changed", () => {
  const before = { a: 1, b: { x: [1, { y: 2 }], z: null }, c: "t", d: [1, 2] }

  test.for<[what: string, after: unknown, changed: ReadonlyArray<string>]>([
    ["nothing", structuredClone(before), []],
    ["the order of keys", { d: [1, 2], c: "t", b: { z: null, x: [1, { y: 2 }] }, a: 1 }, []],
    ["a value", { ...before, a: 2 }, ["a"]],
    ["a value within", { ...before, b: { x: [1, { y: 3 }], z: null } }, ["b"]],
    ["one key more within", { ...before, b: { ...before.b, w: undefined } }, ["b"]],
    ["the order of items", { ...before, d: [2, 1] }, ["d"]],
    ["a list for a map", { ...before, b: [] }, ["b"]],
    ["a text for a number", { ...before, a: "1" }, ["a"]],
    ["a new key", { ...before, e: 1 }, ["e"]],
    ["a key that went", { a: 1, c: "t", d: [1, 2] }, ["b"]],
    ["keys of every object", { ...before, ["__proto__"]: 1, constructor: 1 }, ["__proto__", "constructor"]],
    ["everything", undefined, ["a", "b", "c", "d"]]
  ])("%s", ([, after, changed]) => {
    expect(changedKeys(before, after)).toEqual(changed)
    expect(changedKeys(after, before).toSorted()).toEqual(changed.toSorted())
  })
})

test("what the agent only reads needs no restart", () => {
  expect(needsRestart([])).toBe(false)
  expect(needsRestart(["greeting", "starterPrompts", "agentCard"])).toBe(false)
  expect(needsRestart(["greeting", "llm"])).toBe(true)
})
