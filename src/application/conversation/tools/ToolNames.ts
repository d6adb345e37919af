import type { AgentTool } from "../AgentTool.ts"

/** What vendors take as the name of a tool. */
const mostCharacters = 64
const refused = /[^A-Za-z0-9_-]/g

/** Servers whose short names would be those of tools that are not theirs. */
const reserved: ReadonlyArray<string> = ["internal", "mcp"]

/**
 * What each tool of a server is called: `server--tool` (decisions 7). A name that vendors do not take, or that two tools
 * would have, is changed and has a mark of its own behind it, which depends on nothing but the server and the tool: a
 * conversation finds its tools again, whatever others come and go.
 */
export const namesOf = (
  tools: ReadonlyArray<readonly [server: string, tool: string]>
): ReadonlyArray<Pick<AgentTool, "name" | "policyNames">> => {
  const plain = tools.map(([server, tool]) => `${server}--${tool}`)
  const counts = new Map<string, number>()
  for (const name of plain) counts.set(name, (counts.get(name) ?? 0) + 1)
  return tools.map(([server, tool]) => {
    const name = `${server}--${tool}`
    const isTaken = name.length <= mostCharacters && name.search(refused) === -1 && counts.get(name) === 1
    return {
      name: isTaken ? name : marked(server, tool),
      policyNames: [...(reserved.includes(server) ? [] : [name]), `mcp--${name}`]
    }
  })
}

const marked = (server: string, tool: string): string => {
  const mark = `_${hash(JSON.stringify([server, tool]))}`
  const name = `${server}--${tool}`.replaceAll(refused, "_")
  return `${name.slice(0, mostCharacters - mark.length)}${mark}`
}

/** FNV-1a of 32 bits: the same on every process, and in every version of this service. */
const hash = (text: string): string => {
  let value = 0x811c9dc5
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 0x01000193) >>> 0
  return value.toString(36)
}
