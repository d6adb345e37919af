import { Context } from "effect"
import type { Provider } from "../../../domain/llm/Provider.ts"

/** The model vendors that agents can use (decisions 5), with their models; in memory. This gateway itself is not here. */
export class Providers extends Context.Service<
  Providers,
  {
    readonly vendors: ReadonlyArray<Provider>
  }
>()("gateway/ports/vendor/Providers") {}
