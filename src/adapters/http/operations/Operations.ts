import { Effect, Layer, Predicate } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApiScalar, OpenApi } from "effect/http-api"
import { PrometheusMetrics } from "effect/observability"
import { ClusterHealth } from "../../../application/ports/runtime/ClusterHealth.ts"
import { StoreHealth } from "../../../application/ports/storage/StoreHealth.ts"
import { Drain } from "../edge/Drain.ts"
import { isLimited, RatePolicies } from "../gateway/RatePolicies.ts"
import { ServiceApi } from "./ServiceApi.ts"

/** The process turns: it answers. Says nothing of the store, whose loss no restart mends. */
const Live = HttpRouter.add("GET", "/health/live", HttpServerResponse.jsonUnsafe({ status: "ok" }))

/** Whether this process should get requests: the store answers, turns are run, and nobody is shutting it down. */
const Ready = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const store = yield* StoreHealth
    const cluster = yield* ClusterHealth
    const drain = yield* Drain
    yield* router.add(
      "GET",
      "/health/ready",
      Effect.gen(function* () {
        if (drain.isDraining()) return notReady("draining")
        if (!(yield* store.isReachable)) return notReady("store unreachable")
        if (!(yield* cluster.isMember)) return notReady("not a member of the cluster")
        return HttpServerResponse.jsonUnsafe({ status: "ok" })
      })
    )
  })
)

const notReady = (reason: string) => HttpServerResponse.jsonUnsafe({ status: "unavailable", reason }, { status: 503 })

const Metrics = PrometheusMetrics.layerHttp({ path: "/metrics" })

/** The description of the interface, each operation with its rate policy (section 9). */
const Description = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const policies = yield* RatePolicies
    const document = OpenApi.fromApi(ServiceApi)
    const paths = Object.fromEntries(
      Object.entries(document.paths).map(([path, operations]) => [
        path,
        Object.fromEntries(
          Object.entries(operations).map(([method, operation]) => [
            method,
            Predicate.hasProperty(operation, "operationId") && isLimited(policies, operation.operationId)
              ? { ...operation, "x-service-rate-limit": policies[operation.operationId] }
              : operation
          ])
        )
      ])
    )
    yield* router.add("GET", "/openapi.json", HttpServerResponse.jsonUnsafe({ ...document, paths }))
  })
)

/** The page brings its own script; without the default fonts it fetches nothing from elsewhere. */
const Docs = HttpApiScalar.layer(ServiceApi, { path: "/docs", scalar: { withDefaultFonts: false } })

export const OperationRoutes = Layer.mergeAll(Live, Ready, Metrics, Description, Docs)

export const operationPaths = ["/health/live", "/health/ready", "/metrics", "/openapi.json", "/docs"]
