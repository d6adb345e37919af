import { Layer } from "effect"
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"

/** Says in the description of the interface that an operation wants a key (section 5). `Gate` and `RuntimeGate` are what asks for it. */
export class KeyRequired extends HttpApiMiddleware.Service<KeyRequired>()("gateway/http/KeyRequired", {
  security: { bearer: HttpApiSecurity.bearer }
}) {
  static readonly layer = Layer.succeed(KeyRequired, { bearer: (httpEffect) => httpEffect })
}
