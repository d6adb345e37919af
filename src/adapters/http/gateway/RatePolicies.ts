import { Context } from "effect"
import type { RatePolicy } from "../../../domain/ratelimit/RatePolicy.ts"

/** The rate policies in force, by operation id. */
export class RatePolicies extends Context.Service<
  RatePolicies,
  {
    readonly [Operation in "listModels" | "getBillingSummary" | "createChatCompletion"]: RatePolicy
  }
>()("gateway/http/RatePolicies") {}

export type Operation = keyof RatePolicies["Service"]

export const isLimited = (policies: RatePolicies["Service"], operation: unknown): operation is Operation =>
  typeof operation === "string" && Object.hasOwn(policies, operation)
