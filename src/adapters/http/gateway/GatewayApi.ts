import { HttpApi, OpenApi } from "effect/http-api"
import { BillingApi } from "./BillingApi.ts"
import { ChatApi } from "./ChatApi.ts"
import { ModelsApi } from "./ModelsApi.ts"

/** The gateway half of the contract (section 4.1). */
export class GatewayApi extends HttpApi.make("gateway")
  .add(ModelsApi, BillingApi, ChatApi)
  .annotateMerge(
    OpenApi.annotations({
      title: "Model Gateway and Agent Runtime API",
      version: "1.0.0",
      description: "An OpenAI-compatible gateway to language models with prepaid credit, limits and usage."
    })
  ) {}
