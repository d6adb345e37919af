import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Context, Effect, Layer, Result } from "effect"
import { Headers, HttpServerRequest } from "effect/http"
import { HttpApiError, HttpApiMiddleware } from "effect/http-api"
import { codedIssuesOf } from "../../../domain/shared/CodedIssue.ts"
import { type Unstorable, unstorableIn } from "../../../domain/shared/Unstorable.ts"
import { credential } from "../edge/Credential.ts"
import * as JsonBody from "../edge/JsonBody.ts"
import { CurrentRequest } from "../edge/RequestState.ts"
import { Admission } from "./Admission.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { BodyLimit, BodyMayBeAbsent, RefusesBy } from "./envelopes/Envelope.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import { InvalidInput } from "./InvalidInput.ts"
import { RuntimeAccess, strangerOf } from "./RuntimeAccess.ts"

/**
 * The way into every operation of the runtime: the caller's workspace (decisions 1), then the body, read within the
 * endpoint's limit. A request that the endpoint's schemas refuse is answered in the shape of its group.
 */
export class RuntimeGate extends HttpApiMiddleware.Service<RuntimeGate, { provides: CurrentWorkspace }>()(
  "gateway/http/RuntimeGate"
) {
  static readonly layer = Layer.effect(
    RuntimeGate,
    Effect.gen(function* () {
      const { workspaceOf } = yield* Admission
      const access = yield* RuntimeAccess

      return RuntimeGate.of(
        Effect.fnUntraced(function* (httpEffect, { endpoint, group }) {
          const request = yield* HttpServerRequest.HttpServerRequest
          const state = yield* CurrentRequest
          const stranger = strangerOf(access, { host: request.headers["host"], origin: request.headers["origin"] })
          if (stranger !== undefined) return messageEnvelope(403, stranger)
          const found = yield* Effect.result(workspaceOf(credential(request.headers["authorization"])))
          if (found._tag === "Failure") {
            return messageEnvelope(401, found.failure.message, { "www-authenticate": "Bearer" })
          }
          const workspace = found.success
          state.caller = workspace.caller

          const annotations = Context.merge(group.annotations, endpoint.annotations)
          const refuse = Context.get(annotations, RefusesBy)
          const unstorable = unstorableIn(yield* HttpServerRequest.ParsedSearchParams)
          if (unstorable !== undefined) return refuse(notStorable(unstorable))
          let answering = httpEffect
          if (endpoint.payload.size > 0) {
            const source = NodeHttpServerRequest.toIncomingMessage(request)
            const body =
              Context.get(annotations, BodyMayBeAbsent) && hasNoBody(request)
                ? Result.succeed({ value: {}, text: "{}" })
                : yield* Effect.result(JsonBody.read(Context.get(annotations, BodyLimit), { source, request }))
            if (body._tag === "Failure") return refuse(JsonBody.unquoted(body.failure))
            const wrong = unstorableIn(body.success.value)
            if (wrong !== undefined) return refuse(notStorable(wrong))
            answering = Effect.provideService(
              httpEffect,
              HttpServerRequest.HttpServerRequest,
              withBody(request, body.success.text)
            )
          }
          return yield* Effect.catch(
            Effect.provideService(answering, CurrentWorkspace, workspace),
            // What no answer of ours may be is left to the framework: that is a defect.
            (error) => (isRequestError(error) ? Effect.succeed(refuse(inputOf(error))) : Effect.fail(error))
          )
        })
      )
    })
  )
}

const inputOf = ({ cause }: HttpApiError.HttpApiSchemaError): InvalidInput =>
  new InvalidInput({
    issues: codedIssuesOf(cause).map(({ code, message, path }) => ({ code, message, path: path.map(String) }))
  })

const isRequestError = (error: unknown): error is HttpApiError.HttpApiSchemaError =>
  HttpApiError.HttpApiSchemaError.is(error) &&
  (error.kind === "Params" || error.kind === "Query" || error.kind === "Payload")

const hasNoBody = ({ headers }: HttpServerRequest.HttpServerRequest): boolean =>
  headers["transfer-encoding"] === undefined && Number(headers["content-length"] ?? 0) === 0

/** The request with its body at hand, whatever type of content its headers claim. */
const withBody = (request: HttpServerRequest.HttpServerRequest, text: string): HttpServerRequest.HttpServerRequest =>
  new Proxy(request.modify({ headers: Headers.set(request.headers, "content-type", "application/json") }), {
    get: (given, property): unknown => (property === "text" ? Effect.succeed(text) : Reflect.get(given, property))
  })

const notStorable = ({ message, path }: Unstorable): InvalidInput =>
  new InvalidInput({ issues: [{ path, code: "invalid_value", message }] })
