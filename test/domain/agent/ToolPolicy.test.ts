import { describe, expect, test } from "vitest"
import { toolDecision } from "../../../src/domain/agent/ToolPolicy.ts"

const names = ["files--write", "mcp--files--write"]
const nothing = new Set<string>()

const policies = (alwaysAllow: ReadonlyArray<string> = [], alwaysDeny: ReadonlyArray<string> = []) => ({
  alwaysAllow,
  alwaysDeny
})

describe("what happens to a call of a tool", () => {
  test.each([
    ["event-based", "ask"],
    ["auto-approve", "allow"],
    ["auto-deny", "deny"]
  ] as const)("is what mode %s says when nothing else says anything: %s", (mode, decision) => {
    expect(toolDecision({ mode, toolPolicies: policies() }, names, nothing)).toBe(decision)
    expect(
      toolDecision({ mode, toolPolicies: policies(["files--read"], ["files"]) }, names, new Set(["files--w"]))
    ).toBe(decision)
  })

  test.each(["event-based", "auto-approve", "auto-deny"] as const)(
    "is in mode %s a denial if that is always so, else leave if that is always so or was remembered",
    (mode) => {
      for (const name of [...names, "files--*", "mcp--*", "*"]) {
        const denying = { mode, toolPolicies: policies(names, [name]) }
        expect(toolDecision(denying, names, new Set(names))).toBe("deny")
        expect(toolDecision({ mode, toolPolicies: policies([name]) }, names, nothing)).toBe("allow")
      }
      expect(toolDecision({ mode, toolPolicies: policies() }, names, new Set(["files--write"]))).toBe("allow")
    }
  )

  test("takes a star at the end alone for one, and what was remembered for nothing but itself", () => {
    const toolPolicies = policies(["files--*write", "f*s--write", "files--write-*"])
    expect(toolDecision({ mode: "event-based", toolPolicies }, names, new Set(["files--*", "*"]))).toBe("ask")
  })
})
