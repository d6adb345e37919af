import type { createOpenAICompatible } from "@ai-sdk/openai-compatible"

/** A model as every provider of the Vercel AI SDK gives it: version 4 of its specification. */
export type Model = ReturnType<ReturnType<typeof createOpenAICompatible>["languageModel"]>

export type CallOptions = Parameters<Model["doStream"]>[0]

type Streamed = Awaited<ReturnType<Model["doStream"]>>["stream"]
export type StreamPart = Streamed extends ReadableStream<infer Part> ? Part : never

export type Message = CallOptions["prompt"][number]

/** Parts of messages with this role. */
export type PartOf<Role extends Message["role"]> = Extract<Message, { readonly role: Role }>["content"][number]

export type File = Extract<PartOf<"user">, { readonly type: "file" }>
export type ToolOutput = Extract<PartOf<"tool">, { readonly type: "tool-result" }>["output"]

/** What a provider says of a part, and wants to hear again of it. */
export type Metadata = NonNullable<Extract<StreamPart, { readonly type: "tool-call" }>["providerMetadata"]>
