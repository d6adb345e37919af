import { HttpApi } from "effect/http-api"
import { KeyRequired } from "../KeyRequired.ts"
import { MemoryApi } from "./MemoryApi.ts"
import { RuntimeGate } from "./RuntimeGate.ts"

/** The runtime half of the contract (sections 4.2 to 4.9). Fields that nobody described are passed over. */
export class RuntimeApi extends HttpApi.make("runtime")
  .add(MemoryApi)
  .middleware(KeyRequired)
  .middleware(RuntimeGate)
  .annotate(HttpApi.PayloadParseOptions, { errors: "all" }) {}
