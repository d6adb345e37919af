import { HttpApi } from "effect/http-api"
import { BillingApi } from "./BillingApi.ts"
import { ChatApi } from "./ChatApi.ts"
import { ModelsApi } from "./ModelsApi.ts"

/** The gateway half of the contract (section 4.1). */
export class GatewayApi extends HttpApi.make("gateway").add(ModelsApi, BillingApi, ChatApi) {}
