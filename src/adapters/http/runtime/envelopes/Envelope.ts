import { Context } from "effect"
import type { HttpServerResponse } from "effect/http"
import type { BodyTooLarge, InvalidJson, TooIntricate } from "../../edge/JsonBody.ts"
import type { InvalidInput } from "../InvalidInput.ts"
import { messageEnvelope } from "./MessageEnvelope.ts"

/** What a request can fail with before a handler sees it. */
export type Unacceptable = BodyTooLarge | InvalidJson | InvalidInput | TooIntricate

/** One of the four shapes of section 7.2, as far as every request may need it. */
export type Refusing = (failure: Unacceptable) => HttpServerResponse.HttpServerResponse

/** In which shape a group of routes, or one endpoint, refuses requests. An annotation. */
export const RefusesBy = Context.Reference<Refusing>("gateway/http/RefusesBy", {
  defaultValue: () => (failure) => messageEnvelope(failure._tag === "BodyTooLarge" ? 413 : 400, failure.message)
})

/** How many bytes an endpoint's body may have (section 8). An annotation. */
export const BodyLimit = Context.Reference<number>("gateway/http/BodyLimit", { defaultValue: () => 1024 * 1024 })

/** Whether an endpoint takes a request without a body, as it does an empty object. An annotation. */
export const BodyMayBeAbsent = Context.Reference<boolean>("gateway/http/BodyMayBeAbsent", { defaultValue: () => false })
