import { HttpApi, OpenApi } from "effect/http-api"
import { GatewayApi } from "../gateway/GatewayApi.ts"
import { RuntimeApi } from "../runtime/RuntimeApi.ts"

/** The whole interface, as it is described to others (section 9). */
export class ServiceApi extends HttpApi.make("service")
  .addHttpApi(GatewayApi)
  .addHttpApi(RuntimeApi)
  .annotateMerge(
    OpenApi.annotations({
      title: "Model Gateway and Agent Runtime API",
      version: "1.0.0",
      description:
        "An OpenAI-compatible gateway to language models with prepaid credit, limits and usage, and a runtime for agents."
    })
  ) {}
