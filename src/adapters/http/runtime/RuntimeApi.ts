import { HttpApi } from "effect/http-api"
import { KeyRequired } from "../KeyRequired.ts"
import { AgentConfigApi } from "./AgentConfigApi.ts"
import { AgentsApi } from "./AgentsApi.ts"
import { ApprovalApi } from "./ApprovalApi.ts"
import { EventApi } from "./EventApi.ts"
import { LlmApi } from "./LlmApi.ts"
import { McpApi } from "./McpApi.ts"
import { MemoryApi } from "./MemoryApi.ts"
import { MessageApi } from "./MessageApi.ts"
import { PromptApi } from "./PromptApi.ts"
import { ResourceApi } from "./ResourceApi.ts"
import { RuntimeGate } from "./RuntimeGate.ts"
import { SearchApi } from "./SearchApi.ts"
import { SessionApi } from "./SessionApi.ts"

/** The runtime half of the contract (sections 4.2 to 4.9). Fields that nobody described are passed over. */
export class RuntimeApi extends HttpApi.make("runtime")
  .add(AgentConfigApi)
  .add(AgentsApi)
  .add(ApprovalApi)
  .add(EventApi)
  .add(LlmApi)
  .add(McpApi)
  .add(MemoryApi)
  .add(MessageApi)
  .add(PromptApi)
  .add(ResourceApi)
  .add(SearchApi)
  .add(SessionApi)
  .middleware(KeyRequired)
  .middleware(RuntimeGate)
  .annotate(HttpApi.PayloadParseOptions, { errors: "all" })
  .annotate(HttpApi.QueryParseOptions, { errors: "all" }) {}
