import { Layer, Logger, type LogLevel, Option, References } from "effect"
import { FetchHttpClient, UrlParams } from "effect/http"
import { Otlp, OtlpSerialization } from "effect/observability"
import * as LogLines from "./LogLines.ts"

export interface ObservabilityOptions {
  readonly level: LogLevel.LogLevel
  readonly format: "json" | "text"
  readonly otlpEndpoint: Option.Option<string>
}

/**
 * Logs to standard output, one JSON object a line or readable on a terminal; traces, metrics and logs to an OTLP
 * collector where one is configured. Without one no span is recorded. No value of an address's query is in a trace:
 * arguments of prompts and what is searched for are there.
 */
export const layer = ({ format, level, otlpEndpoint }: ObservabilityOptions) =>
  Option.match(otlpEndpoint, {
    onNone: () => Layer.succeed(References.TracerEnabled, false),
    onSome: (baseUrl) =>
      Otlp.layer({ baseUrl, resource: { serviceName: "model-gateway", serviceVersion: "1.0.0" } }).pipe(
        Layer.provide(OtlpSerialization.layerJson),
        Layer.provide(FetchHttpClient.layer)
      )
  }).pipe(
    // Underneath, since the collector's logger joins those that are there.
    Layer.provideMerge(Logger.layer([format === "json" ? LogLines.json : LogLines.text])),
    Layer.provideMerge(Layer.succeed(References.MinimumLogLevel, level)),
    Layer.provideMerge(Layer.succeed(UrlParams.CurrentRedactedNames, [/^/]))
  )
