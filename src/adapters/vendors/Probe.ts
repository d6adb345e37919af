import { Duration, Effect, Schema } from "effect"
import { request } from "undici"
import { keyHeaders, type Upstream } from "./Driver.ts"

const timeout = Duration.seconds(5)

export class ProbeFailed extends Schema.TaggedError<ProbeFailed>()("ProbeFailed", { message: Schema.String }) {}

/** Asks an upstream for its models: whether it can be reached, and takes the key. */
export const probe = (upstream: Upstream): Effect.Effect<string, ProbeFailed> =>
  Effect.tryPromise({
    try: async (signal) => {
      const answer = await request(`${upstream.baseUrl}${upstream.protocol.modelsPath ?? "/models"}`, {
        signal,
        headers: { ...upstream.protocol.headers, ...keyHeaders(upstream, upstream.apiKey) }
      })
      await answer.body.dump()
      return answer.statusCode
    },
    catch: (cause) => new ProbeFailed({ message: `${upstream.baseUrl} cannot be reached: ${String(cause)}` })
  }).pipe(
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () =>
        Effect.fail(new ProbeFailed({ message: `${upstream.baseUrl} did not answer in ${Duration.format(timeout)}` }))
    }),
    Effect.flatMap((status) =>
      status === 401 || status === 403
        ? Effect.fail(new ProbeFailed({ message: `${upstream.baseUrl} refuses the key (status ${status})` }))
        : status >= 500
          ? Effect.fail(new ProbeFailed({ message: `${upstream.baseUrl} answers status ${status}` }))
          : Effect.succeed(`${upstream.baseUrl} answers`)
    )
  )
