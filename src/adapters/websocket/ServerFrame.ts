import type { AgentEvent } from "../../application/agent/RunningAgents.ts"
import type { NumberedEvent } from "../../domain/conversation/SessionEvent.ts"

/** Whoever listens to a session gets the same object: it is written once for all of them. */
const written = new WeakMap<NumberedEvent, Buffer>()

/** An event of a session, with its number (decisions 6). */
export const sessionFrame = (numbered: NumberedEvent): Buffer => {
  const known = written.get(numbered)
  if (known !== undefined) return known
  const { event, id } = numbered
  const frame = Buffer.from(JSON.stringify({ event: event.event, data: event.data, id }))
  written.set(numbered, frame)
  return frame
}

/** What happens to a workspace's agent belongs to no session, and has no number. */
export const agentFrame = (event: AgentEvent): string => {
  switch (event._tag) {
    case "AgentRestarted":
      return frame("agentRestarted", { agentId: event.agentId, changesApplied: event.changesApplied })
    case "McpServerConnected":
      return frame("mcpServerConnected", {
        name: event.name,
        success: event.success,
        ...(event.error === undefined ? {} : { error: event.error })
      })
    case "ToolsUpdated":
      return frame("availableToolsUpdated", { tools: event.tools, source: event.source })
    case "ResourcesChanged":
      return frame("resourceCacheInvalidated", {
        ...(event.resourceUri === undefined ? {} : { resourceUri: event.resourceUri }),
        serverName: event.serverName,
        action: event.action
      })
  }
}

/** That a frame of the client led to nothing. No event of a session: it has no number, and ends no turn. */
export const errorFrame = (data: {
  readonly message: string
  readonly code: string
  readonly recoverable: boolean
  readonly sessionId?: string
}): string => frame("error", data)

const frame = (event: string, data: object): string => JSON.stringify({ event, data })
