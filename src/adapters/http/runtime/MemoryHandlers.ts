import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const MemoryHandlers = HttpApiBuilder.group(RuntimeApi, "memory", (handlers) =>
  handlers.handle("countMemories", () => Effect.map(CurrentWorkspace, () => ({ ok: true as const, count: 0 })))
)
