import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Drain, type DrainOptions } from "./edge/Drain.ts"
import { edge } from "./edge/Edge.ts"
import { nodeServer, requiringHost } from "./edge/NodeServer.ts"
import type { RouteEntry } from "./edge/Routes.ts"
import { BillingHandlers } from "./gateway/BillingHandlers.ts"
import { ChatHandlers } from "./gateway/ChatHandlers.ts"
import { EventStreams } from "./gateway/EventStreams.ts"
import { Gate } from "./gateway/Gate.ts"
import { GatewayApi } from "./gateway/GatewayApi.ts"
import { ModelsHandlers } from "./gateway/ModelsHandlers.ts"
import { RatePolicies } from "./gateway/RatePolicies.ts"
import { operationPaths, OperationRoutes } from "./operations/Operations.ts"

export interface HttpOptions {
  readonly host: string
  readonly port: number
  readonly drain: DrainOptions
  readonly policies: RatePolicies["Service"]
}

const Gateway = HttpApiBuilder.layer(GatewayApi).pipe(
  Layer.provide([ModelsHandlers, BillingHandlers, ChatHandlers]),
  Layer.provide(Gate.layer)
)

const routes: ReadonlyArray<RouteEntry> = [
  ...operationPaths.map((path) => ({ method: "GET", path })),
  ...Object.values(GatewayApi.groups).flatMap((group) =>
    Object.values(group.endpoints).map(({ method, path }) => ({ method, path }))
  )
]

/** The gateway over HTTP. Stops by draining: see `Drain`. */
export const layer = (options: HttpOptions) =>
  Drain.onStop.pipe(
    Layer.provideMerge(
      Layer.unwrap(
        Effect.map(
          HttpRouter.toHttpEffect(Layer.merge(Gateway, OperationRoutes)).pipe(
            Effect.provideService(HttpRouter.RouterConfig, { caseSensitive: true }),
            Effect.flatMap((app) => edge(requiringHost(app), routes))
          ),
          (app) => HttpServer.serve(app)
        )
      )
    ),
    Layer.provideMerge(
      Layer.unwrap(
        Effect.map(Drain, ({ guard }) =>
          NodeHttpServer.layerServer(() => guard(nodeServer()), { host: options.host, port: options.port })
        )
      )
    ),
    Layer.provide(NodeHttpServer.layerHttpServices),
    Layer.provide(EventStreams.layer),
    Layer.provide(Drain.layer(options.drain)),
    Layer.provide(Layer.succeed(RatePolicies, options.policies))
  )
