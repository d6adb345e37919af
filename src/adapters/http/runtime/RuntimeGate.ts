import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Context, Effect, Layer, Option, Predicate, Result } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiError, HttpApiMiddleware } from "effect/http-api"
import { Authenticate } from "../../../application/identity/Authenticate.ts"
import { defaultOrganization } from "../../../application/identity/FirstStart.ts"
import { Organizations } from "../../../application/ports/storage/Organizations.ts"
import { InvalidApiKey } from "../../../domain/identity/IdentityErrors.ts"
import { codedIssuesOf } from "../../../domain/shared/CodedIssue.ts"
import { credential } from "../edge/Credential.ts"
import * as JsonBody from "../edge/JsonBody.ts"
import { CurrentRequest } from "../edge/RequestState.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { BodyLimit, BodyMayBeAbsent, RefusesBy } from "./envelopes/Envelope.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import { InvalidInput } from "./InvalidInput.ts"
import { allowsOrigin, hostnameOf, isLoopback, RuntimeAccess } from "./RuntimeAccess.ts"

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
      const authenticate = yield* Authenticate
      const organizations = yield* Organizations
      const access = yield* RuntimeAccess
      /** Never deleted, so it is looked up until it is there: an embedded store makes it while it starts. */
      let openTo: Option.Option<CurrentWorkspace["Service"]> = Option.none()

      const workspaceOf = Effect.fnUntraced(function* (key: string) {
        if (key !== "" || !access.open) {
          const caller = yield* authenticate.byKey(key)
          return CurrentWorkspace.of({ id: caller.organizationId, caller })
        }
        if (Option.isNone(openTo)) {
          const found = yield* organizations.findByName(defaultOrganization)
          openTo = Option.map(found, ({ id }) => ({ id, caller: undefined }))
        }
        if (Option.isSome(openTo)) return openTo.value
        return yield* new InvalidApiKey({ reason: "missing" })
      })

      return RuntimeGate.of(
        Effect.fnUntraced(function* (httpEffect, { endpoint, group }) {
          const request = yield* HttpServerRequest.HttpServerRequest
          const state = yield* CurrentRequest
          const stranger = strangerOf(access, request)
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
                ? Result.succeed({ value: {}, bytes: 0 })
                : yield* Effect.result(JsonBody.read(Context.get(annotations, BodyLimit), { source, request }))
            if (body._tag === "Failure") return refuse(JsonBody.unquoted(body.failure))
            const wrong = unstorableIn(body.success.value)
            if (wrong !== undefined) return refuse(notStorable(wrong))
            answering = Effect.provideService(
              httpEffect,
              HttpServerRequest.HttpServerRequest,
              withBody(request, body.success.value)
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

/**
 * A page from elsewhere that got at an open service through the browser of its user: by a name that leads to this
 * machine (DNS rebinding), or by a request that browsers send without asking.
 */
const strangerOf = (
  access: RuntimeAccess["Service"],
  { headers }: HttpServerRequest.HttpServerRequest
): string | undefined => {
  if (!access.open) return undefined
  const host = headers["host"]
  const origin = headers["origin"]
  if (host !== undefined && !isLoopback(hostnameOf(host))) {
    return `This service is open to its own machine only, not by the name ${JSON.stringify(host)}. Set API_AUTH=required to use it by other names.`
  }
  if (origin !== undefined && !allowsOrigin(access, origin)) {
    return `Pages of ${JSON.stringify(origin)} may not use this service. List the origin in CORS_ORIGINS to let them.`
  }
  return undefined
}

const hasNoBody = ({ headers }: HttpServerRequest.HttpServerRequest): boolean =>
  headers["transfer-encoding"] === undefined && Number(headers["content-length"] ?? 0) === 0

/** The request with its body at hand, whatever type of content its headers claim. */
const withBody = (
  { headers, method, url }: HttpServerRequest.HttpServerRequest,
  body: unknown
): HttpServerRequest.HttpServerRequest =>
  HttpServerRequest.fromWeb(
    new Request(new URL(originForm(url), "http://localhost"), {
      method,
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify(body)
    })
  )

/** A target without the address that it may begin with, as if by a proxy: whatever stands there is no part of the path. */
const originForm = (url: string): string => url.replace(/^https?:\/\/[^/?]*/i, "")

interface Unstorable {
  readonly path: ReadonlyArray<string>
  readonly message: string
}

const noText = "Expected a text without NUL and without lone surrogates."

/** JSON has no infinity: such a number would be stored as null. */
const noNumber = "Expected a number of at most 1.7976931348623157e308."

/** What no store takes, and where it stands: a text with NUL or half of a surrogate pair, a number that is too large. */
const unstorableIn = (value: unknown): Unstorable | undefined => {
  if (Predicate.isString(value)) {
    return value.includes("\0") || !value.isWellFormed() ? { path: [], message: noText } : undefined
  }
  if (Predicate.isNumber(value)) return Number.isFinite(value) ? undefined : { path: [], message: noNumber }
  if (!Predicate.isObjectOrArray(value)) return undefined
  for (const [key, inner] of Object.entries(value)) {
    const found = unstorableIn(key) ?? unstorableIn(inner)
    if (found !== undefined) return { ...found, path: [key, ...found.path] }
  }
  return undefined
}

const notStorable = ({ message, path }: Unstorable): InvalidInput =>
  new InvalidInput({ issues: [{ path, code: "invalid_value", message }] })
