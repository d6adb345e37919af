import { Schema } from "effect"
import { HttpServerResponse } from "effect/http"

/**
 * `{error}` of section 7.2: search, prompts, resources and conversation; and of every `/api` route what is no route's
 * own affair, such as a missing key.
 */
export const MessageWire = Schema.Struct({ error: Schema.String }).annotate({ identifier: "MessageError" })

export const messageEnvelope = (
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {}
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.jsonUnsafe({ error: brief(message) } satisfies typeof MessageWire.Type, { status, headers })

/** An answer quotes its request, and must not grow with it. */
const mostText = 2_000

export const brief = (text: string): string => (text.length > mostText ? `${text.slice(0, mostText)}…` : text)

/** The same shape under one status, for the description of an endpoint. */
export const messageError = (status: number, description: string) =>
  MessageWire.annotate({ identifier: `MessageError${status}`, description, httpApiStatus: status })
