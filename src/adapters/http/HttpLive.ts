import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { Drain, type DrainOptions } from "./edge/Drain.ts"
import { edge } from "./edge/Edge.ts"
import { NodeServer, nodeServer } from "./edge/NodeServer.ts"
import { EventStreams } from "./gateway/EventStreams.ts"
import { Gate } from "./gateway/Gate.ts"
import { gatewayRoutes } from "./gateway/GatewayRoutes.ts"
import { RatePolicies } from "./gateway/RatePolicies.ts"
import { operationPaths, OperationRoutes } from "./operations/Operations.ts"
import { Admission } from "./runtime/Admission.ts"
import { RuntimeAccess } from "./runtime/RuntimeAccess.ts"
import { runtimePaths, RuntimeRoutes } from "./runtime/RuntimeRoutes.ts"
import { Upgrades } from "./runtime/Upgrades.ts"

export interface HttpOptions {
  readonly host: string
  readonly port: number
  readonly drain: DrainOptions
  readonly policies: RatePolicies["Service"]
  readonly access: RuntimeAccess["Service"]
}

/** The service over HTTP. Stops by draining: see `Drain`. */
export const layer = (options: HttpOptions) =>
  Drain.onStop.pipe(
    Layer.merge(Upgrades.serve),
    Layer.provideMerge(
      Layer.unwrap(
        Effect.gen(function* () {
          const router = yield* Effect.provideService(
            HttpRouter.toHttpEffect(Layer.merge(OperationRoutes, RuntimeRoutes)),
            HttpRouter.RouterConfig,
            // The URI of a resource is a parameter: as long as a whole request's head may be.
            { caseSensitive: true, maxParamLength: 16_384 }
          )
          const gateway = yield* gatewayRoutes
          const routes = [...gateway, ...runtimePaths, ...operationPaths.map((path) => ({ method: "GET", path }))]
          return HttpServer.serve(yield* edge(router, gateway, routes))
        })
      )
    ),
    Layer.provideMerge(
      Layer.unwrap(
        Effect.map(Drain, ({ guard }) => {
          const server = guard(nodeServer())
          return Layer.merge(
            NodeHttpServer.layerServer(() => server, { host: options.host, port: options.port }),
            Layer.succeed(NodeServer, server)
          )
        })
      )
    ),
    Layer.provide(NodeHttpServer.layerHttpServices),
    Layer.provide([EventStreams.layer, Gate.layer, Admission.layer]),
    Layer.provide(Drain.layer(options.drain)),
    Layer.provide([Layer.succeed(RatePolicies, options.policies), Layer.succeed(RuntimeAccess, options.access)])
  )
