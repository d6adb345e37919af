import { type HttpServerRequest, HttpServerResponse } from "effect/http"

/** What a page on another origin may read of an answer. */
const exposed = "x-request-id, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, x-should-retry"

/** How long a browser remembers a preflight, in seconds. */
const remembered = "600"

/** The headers that let the page which sent the request read its answer; none for other origins, and without one. */
export const corsHeaders = (
  allows: (origin: string) => boolean,
  { headers }: HttpServerRequest.HttpServerRequest
): Record<string, string> =>
  headers["origin"] === undefined
    ? {}
    : allows(headers["origin"])
      ? { "access-control-allow-origin": headers["origin"], "access-control-expose-headers": exposed, vary: "origin" }
      : { vary: "origin" }

/** The answer to a browser that asks before a request; undefined for what is no such question. */
export const preflight = (
  allows: (origin: string) => boolean,
  { headers, method }: HttpServerRequest.HttpServerRequest
): HttpServerResponse.HttpServerResponse | undefined => {
  const origin = headers["origin"]
  const wanted = headers["access-control-request-method"]
  if (method !== "OPTIONS" || origin === undefined || wanted === undefined || !allows(origin)) return undefined
  return HttpServerResponse.empty({
    status: 204,
    headers: {
      "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
      "access-control-allow-headers": headers["access-control-request-headers"] ?? "authorization, content-type",
      "access-control-max-age": remembered
    }
  })
}
