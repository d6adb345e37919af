import { Layer } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { KeyRequired } from "../KeyRequired.ts"
import { AgentConfigHandlers } from "./AgentConfigHandlers.ts"
import { AgentsHandlers } from "./AgentsHandlers.ts"
import { ApprovalHandlers } from "./ApprovalHandlers.ts"
import { EventHandlers } from "./EventHandlers.ts"
import { LlmHandlers } from "./LlmHandlers.ts"
import { McpHandlers } from "./McpHandlers.ts"
import { MemoryHandlers } from "./MemoryHandlers.ts"
import { MessageHandlers } from "./MessageHandlers.ts"
import { PromptHandlers } from "./PromptHandlers.ts"
import { ResourceHandlers } from "./ResourceHandlers.ts"
import { RuntimeApi } from "./RuntimeApi.ts"
import { RuntimeGate } from "./RuntimeGate.ts"
import { SearchHandlers } from "./SearchHandlers.ts"
import { SessionHandlers } from "./SessionHandlers.ts"

/** Every route of the runtime, behind its gate. */
export const RuntimeRoutes = HttpApiBuilder.layer(RuntimeApi).pipe(
  Layer.provide([
    AgentConfigHandlers,
    AgentsHandlers,
    ApprovalHandlers,
    EventHandlers,
    LlmHandlers,
    MemoryHandlers,
    MessageHandlers,
    PromptHandlers,
    McpHandlers,
    ResourceHandlers,
    SearchHandlers,
    SessionHandlers
  ]),
  Layer.provide([RuntimeGate.layer, KeyRequired.layer])
)

/** Where they are, by their templates. */
export const runtimePaths = Object.values(RuntimeApi.groups).flatMap((group) =>
  Object.values(group.endpoints).map(({ method, path }) => ({ method, path }))
)
