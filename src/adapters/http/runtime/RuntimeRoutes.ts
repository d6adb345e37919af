import { Layer } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { KeyRequired } from "../KeyRequired.ts"
import { MemoryHandlers } from "./MemoryHandlers.ts"
import { RuntimeApi } from "./RuntimeApi.ts"
import { RuntimeGate } from "./RuntimeGate.ts"

/** Every route of the runtime, behind its gate. */
export const RuntimeRoutes = HttpApiBuilder.layer(RuntimeApi).pipe(
  Layer.provide([MemoryHandlers]),
  Layer.provide([RuntimeGate.layer, KeyRequired.layer])
)

/** Where they are, by their templates. */
export const runtimePaths = Object.values(RuntimeApi.groups).flatMap((group) =>
  Object.values(group.endpoints).map(({ method, path }) => ({ method, path }))
)
