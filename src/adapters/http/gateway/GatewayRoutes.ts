import { Effect } from "effect"
import { BillingHandlers } from "./BillingHandlers.ts"
import { ChatHandlers } from "./ChatHandlers.ts"
import { type Counting, Gate, type Handler } from "./Gate.ts"
import { GatewayApi } from "./GatewayApi.ts"
import { ModelsHandlers } from "./ModelsHandlers.ts"
import { type Operation, RatePolicies } from "./RatePolicies.ts"

/** A route of the gateway: what is described in `GatewayApi`, behind the gate. */
export interface GatewayRoute {
  readonly method: string
  readonly path: string
  readonly answer: ReturnType<Gate["Service"]["enter"]>
}

/**
 * The gateway's routes, for the edge to look up directly. They carry the load, and what a router with its middleware
 * makes for each request costs more than the request does.
 */
export const gatewayRoutes = Effect.gen(function* () {
  const gate = yield* Gate
  const policies = yield* RatePolicies
  const handlers: { readonly [Name in Operation]: Handler } = {
    createChatCompletion: yield* ChatHandlers,
    getBillingSummary: yield* BillingHandlers,
    listModels: yield* ModelsHandlers
  }
  const counting: { readonly [Name in Operation]: Counting } = {
    createChatCompletion: "with its hold",
    getBillingSummary: "at the gate",
    listModels: "at the gate"
  }
  return operations.map((name): GatewayRoute => {
    const { method, path } = endpoints[name]
    return { method, path, answer: gate.enter(policies[name], counting[name], handlers[name]) }
  })
})

const operations: ReadonlyArray<Operation> = ["createChatCompletion", "getBillingSummary", "listModels"]

const { billing, chat, models } = GatewayApi.groups

/** Where the description of the interface says that each operation is. */
const endpoints: { readonly [Name in Operation]: { readonly method: string; readonly path: string } } = {
  ...billing.endpoints,
  ...chat.endpoints,
  ...models.endpoints
}
