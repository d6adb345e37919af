/** What every contender is asked and what the upstream answers. */

/** Frames of one streamed answer, without the usage chunk and `[DONE]`. */
export const frameCount = 53

/** Milliseconds between two frames of `bench-paced`. */
export const frameGap = 20

/** Milliseconds that `bench-late` thinks before it answers. */
export const thinkingTime = 20

export const completionsPath = "/v1/chat/completions"

/**
 * `bench-json`: one JSON answer. `bench-burst`: all frames at once. `bench-late`: the same after 20 ms.
 * `bench-paced`: one frame every 20 ms. `bench-stalled`: a stream that sends nothing before the client leaves.
 */
export const models = ["bench-json", "bench-burst", "bench-late", "bench-paced", "bench-stalled"] as const
export type BenchModel = (typeof models)[number]

/** The request body for a model. The marker is what `bench-paced` and `bench-stalled` report when a client leaves. */
export const requestBody = (model: BenchModel, marker = "Say something in about fifty words.") =>
  JSON.stringify({
    model,
    messages: [
      { role: "system", content: "You are a helpful assistant." },
      { role: "user", content: marker }
    ],
    max_tokens: 64,
    ...(model === "bench-json" ? {} : { stream: true, stream_options: { include_usage: true } })
  })
