import type { Effect, Option } from "effect"
import type { Resource } from "../../domain/resource/Resource.ts"
import type { ResourceContent } from "../../domain/resource/ResourceContent.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import type { RunningAgent } from "../agent/RunningAgents.ts"
import type { McpFailed } from "../ports/mcp/McpConnector.ts"

/** One kind of resources, told by the scheme of its addresses (section 2.9). */
export interface ResourceProvider {
  readonly scheme: "fs" | "blob" | "mcp"
  readonly list: (place: ResourcePlace) => Effect.Effect<ReadonlyArray<Resource>>
  readonly exists: (place: ResourcePlace, uri: string) => Effect.Effect<boolean>
  readonly read: (place: ResourcePlace, uri: string) => Effect.Effect<Option.Option<ResourceContent>, McpFailed>
}

/** Whose resources: a workspace's, by the agent that runs in it, if one does. */
export interface ResourcePlace {
  readonly workspace: OrganizationId
  readonly agent: RunningAgent | undefined
}
