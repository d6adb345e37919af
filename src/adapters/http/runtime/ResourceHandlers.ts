import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import type { UnknownMcpServer } from "../../../application/agent/McpServers.ts"
import type { McpFailed } from "../../../application/ports/mcp/McpConnector.ts"
import { Resources } from "../../../application/resource/Resources.ts"
import type { ResourceNotFound } from "../../../domain/resource/Resource.ts"
import { readable } from "../../../domain/resource/ResourceContent.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const ResourceHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "resources",
  Effect.fnUntraced(function* (handlers) {
    const resources = yield* Resources

    return handlers
      .handle(
        "listResources",
        Effect.fnUntraced(function* () {
          return { ok: true as const, resources: yield* resources.list((yield* CurrentWorkspace).id) }
        })
      )
      .handle(
        "readResource",
        Effect.fnUntraced(
          function* ({ params: { resourceId } }) {
            const content = yield* resources.read((yield* CurrentWorkspace).id, resourceId)
            return { ok: true as const, content: readable(content) }
          },
          Effect.catchTags({ ResourceNotFound: missing, McpFailed: away })
        )
      )
      .handle(
        "findResource",
        Effect.fnUntraced(function* ({ params: { resourceId } }) {
          const exists = yield* resources.exists((yield* CurrentWorkspace).id, resourceId)
          return HttpServerResponse.empty({ status: exists ? 200 : 404 })
        })
      )
      .handle(
        "listMcpServerResources",
        Effect.fnUntraced(
          function* ({ params: { serverId } }) {
            const offered = yield* resources.ofServer((yield* CurrentWorkspace).id, serverId)
            return { success: true as const, resources: offered }
          },
          Effect.catchTags({ UnknownMcpServer: missing, McpFailed: away })
        )
      )
      .handle(
        "readMcpServerResource",
        Effect.fnUntraced(
          function* ({ params: { resourceId, serverId } }) {
            const content = yield* resources.readOfServer((yield* CurrentWorkspace).id, serverId, resourceId)
            return { success: true as const, data: { content: readable(content) } }
          },
          Effect.catchTags({ ResourceNotFound: missing, UnknownMcpServer: missing, McpFailed: away })
        )
      )
  })
)

const missing = ({ message }: ResourceNotFound | UnknownMcpServer) => Effect.succeed(messageEnvelope(404, message))

const away = ({ message }: McpFailed) => Effect.succeed(messageEnvelope(502, message))
