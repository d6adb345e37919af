import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Cause, Clock, Effect, Exit, Metric, References, Scope } from "effect"
import { HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Ids } from "../../../application/ports/runtime/Ids.ts"
import { StoreUnavailable } from "../../../application/ports/storage/StoreUnavailable.ts"
import { ServiceStopping } from "../../../domain/completion/CompletionErrors.ts"
import { type GatewayFailure, respond, respondPlainly } from "../gateway/GatewayEnvelope.ts"
import type { GatewayRoute } from "../gateway/GatewayRoutes.ts"
import { allowsOrigin, RuntimeAccess } from "../runtime/RuntimeAccess.ts"
import { corsHeaders, preflight } from "./Cors.ts"
import { Drain } from "./Drain.ts"
import { lacksHost, withoutHost } from "./NodeServer.ts"
import { CurrentRequest, RequestState } from "./RequestState.ts"
import { UnexpectedFailure } from "./RouteErrors.ts"
import { pathOf, refusal, type RouteEntry, routeOf } from "./Routes.ts"

/** A caller's request id is kept when it is 1 to 128 visible characters. */
export const acceptableId = /^[\x21-\x7e]{1,128}$/

/** The status in the log of a request whose client went away before its answer was complete. */
const clientGone = 499

/** Probes and scrapes come every few seconds; a line each would bury the others. */
const quiet = new Set(["/health/live", "/health/ready", "/metrics"])

const requests = Metric.counter("http_requests_total", { description: "Answered requests", incremental: true })
const durations = Metric.histogram("http_request_duration_seconds", {
  description: "From the head of the request to the end of its answer",
  boundaries: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
})

interface Labels {
  readonly method: string
  readonly route: string
  readonly status: string
}

/** The two metrics of one kind of request, made once each: there are few kinds, and many requests. */
const measured = new Map<string, ReturnType<typeof measure>>()

const measure = ({ method, route, status }: Labels) => ({
  answered: Metric.withAttributes(requests, { method, route, status }),
  took: Metric.withAttributes(durations, { method, route })
})

const measures = (labels: Labels) => {
  const key = `${labels.method} ${labels.route} ${labels.status}`
  const known = measured.get(key)
  if (known !== undefined) return known
  const made = measure(labels)
  measured.set(key, made)
  return made
}

/**
 * The outermost layer of every answer: the gateway's routes, or the router's; the request id, the envelope of whatever
 * no handler answered, rate headers, and once the answer is complete one log line and the metrics.
 */
export const edge = <R>(
  router: Effect.Effect<HttpServerResponse.HttpServerResponse, unknown, R>,
  gateway: ReadonlyArray<GatewayRoute>,
  routes: ReadonlyArray<RouteEntry>
) =>
  Effect.gen(function* () {
    const ids = yield* Ids
    const drain = yield* Drain
    const access = yield* RuntimeAccess
    const allows = (origin: string) => allowsOrigin(access, origin)
    const known = new Set(routes.map(({ path }) => path))
    const templates = routes.filter(({ path }) => path.includes(":"))
    const direct = new Map(gateway.map(({ answer, method, path }) => [`${method} ${path}`, answer]))

    const finish = Effect.fnUntraced(function* (method: string, path: string, state: RequestState) {
      const ms = (yield* Clock.currentTimeMillis) - state.started
      const labels = { method, route: known.has(path) ? path : (routeOf(templates, path) ?? "other") }
      const { answered, took } = measures({ ...labels, status: String(state.status) })
      yield* Metric.update(answered, 1)
      yield* Metric.update(took, ms / 1000)
      if (quiet.has(path)) return
      yield* Effect.logInfo("request", {
        requestId: state.id,
        method,
        path,
        status: state.status,
        ms,
        ...(state.caller === undefined
          ? {}
          : {
              organization: state.caller.organizationId,
              member: state.caller.memberId,
              key: state.caller.keyId
            }),
        ...(state.model === undefined ? {} : { model: state.model.slice(0, 200) })
      })
    })

    const answerFailure = Effect.fnUntraced(function* (
      cause: Cause.Cause<unknown>,
      request: HttpServerRequest.HttpServerRequest,
      state: RequestState
    ) {
      const failure = Cause.hasInterruptsOnly(cause)
        ? new ServiceStopping()
        : asFailure(Cause.squash(cause), routes, request)
      const { id: requestId } = state
      if (failure._tag === "UnexpectedFailure") {
        yield* Effect.logError("A request failed unexpectedly.", { requestId }, cause)
      }
      if (failure._tag === "StoreUnavailable") {
        yield* Effect.logError("The store cannot be reached.", { requestId }, cause)
      }
      return answerOf(failure, request, requestId)
    })

    const routed = (state: RequestState) =>
      router.pipe(
        Effect.provideService(CurrentRequest, state),
        Effect.provideService(References.CurrentLogAnnotations, { requestId: state.id })
      )

    // What is made here once is the effect that answers every request.
    // @effect-diagnostics-next-line returnEffectInGen:off
    return Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const source = NodeHttpServerRequest.toIncomingMessage(request)
      const given = source.headers["x-request-id"]
      const state = new RequestState(
        typeof given === "string" && acceptableId.test(given) ? given : yield* ids.next,
        yield* Clock.currentTimeMillis,
        request.headers["origin"] === undefined ? undefined : corsHeaders(allows, request)
      )
      const path = pathOf(request.url)
      const fiber = yield* Effect.fiber
      drain.enter(fiber)
      yield* Scope.addFinalizerExit(yield* Scope.Scope, (exit) => {
        drain.leave(fiber)
        if (Exit.hasInterrupts(exit)) state.status = clientGone
        return finish(request.method, path, state)
      })
      const asked = request.headers["origin"] === undefined ? undefined : preflight(allows, request)
      const answers = direct.get(`${request.method === "HEAD" ? "GET" : request.method} ${path}`)
      const answering: Effect.Effect<HttpServerResponse.HttpServerResponse, unknown, R | Scope.Scope> = lacksHost(
        source
      )
        ? Effect.succeed(answerOf(withoutHost, request, state.id))
        : asked !== undefined
          ? Effect.succeed(asked)
          : answers === undefined
            ? routed(state)
            : // As the router does: the server itself runs requests uninterruptibly.
              Effect.interruptible(
                Effect.catch(answers(request, source, state), (error) => Effect.succeed(respond(error, state.id)))
              )
      const answer = yield* Effect.catchCause(answering, (cause) =>
        Cause.hasInterruptsOnly(cause) && !drain.isOver()
          ? Effect.failCause(cause)
          : answerFailure(cause, request, state)
      )
      state.status = answer.status
      return HttpServerResponse.setHeaders(answer, {
        ...state.headers,
        ...(drain.isClosing() ? { connection: "close" } : {})
      })
    })
  })

/** A failure in the envelope of the half of the service that the path belongs to. */
const answerOf = (failure: GatewayFailure, { url }: HttpServerRequest.HttpServerRequest, requestId: string) =>
  /^\/api(?:\/|$)/.test(pathOf(url)) ? respondPlainly(failure) : respond(failure, requestId)

/** Whatever got past the handlers, as one of the failures that have an envelope. */
const asFailure = (
  error: unknown,
  routes: ReadonlyArray<RouteEntry>,
  request: HttpServerRequest.HttpServerRequest
): Extract<GatewayFailure, UnexpectedFailure | StoreUnavailable | ReturnType<typeof refusal>> =>
  error instanceof StoreUnavailable
    ? error
    : HttpServerError.isHttpServerError(error) && error.reason._tag === "RouteNotFound"
      ? refusal(routes, request.method, pathOf(request.url))
      : new UnexpectedFailure()
