import { NodeServices } from "@effect/platform-node"
import { Deferred, Effect, Layer, Queue } from "effect"
import * as PackagedAgentsLive from "model-gateway/adapters/agents/PackagedAgentsLive"
import * as ExternalModelsLive from "model-gateway/adapters/aisdk/ExternalModelsLive"
import * as Catalogue from "model-gateway/adapters/catalogue/Catalogue"
import * as ProvidersLive from "model-gateway/adapters/catalogue/ProvidersLive"
import * as IdsLive from "model-gateway/adapters/crypto/IdsLive"
import * as KeyTextsLive from "model-gateway/adapters/crypto/KeyTextsLive"
import * as NanoIdsLive from "model-gateway/adapters/crypto/NanoIdsLive"
import * as EgressLive from "model-gateway/adapters/egress/EgressLive"
import * as HostFilesLive from "model-gateway/adapters/filesystem/HostFilesLive"
import * as McpConnectorLive from "model-gateway/adapters/mcp/McpConnectorLive"
import * as TokenizerLive from "model-gateway/adapters/tokenizer/TokenizerLive"
import * as VendorsLive from "model-gateway/adapters/vendors/VendorsLive"
import * as AgentYamlLive from "model-gateway/adapters/yaml/AgentYamlLive"
import { AgentBackups } from "model-gateway/application/agent/AgentBackups"
import { CurrentAgent } from "model-gateway/application/agent/CurrentAgent"
import { Environment } from "model-gateway/application/agent/Environment"
import { RunningAgents } from "model-gateway/application/agent/RunningAgents"
import { HoldKeeper } from "model-gateway/application/billing/HoldKeeper"
import { Models } from "model-gateway/application/catalog/Models"
import { CompleteChat } from "model-gateway/application/completion/CompleteChat"
import { Attachments } from "model-gateway/application/conversation/Attachments"
import { CallModel } from "model-gateway/application/conversation/CallModel"
import { Listen } from "model-gateway/application/conversation/Listen"
import { SendMessage } from "model-gateway/application/conversation/SendMessage"
import { SessionsOfWorkspace } from "model-gateway/application/conversation/SessionsOfWorkspace"
import * as Turns from "model-gateway/application/conversation/Turns"
import { Accounts } from "model-gateway/application/identity/Accounts"
import { ProviderKeyRing } from "model-gateway/application/identity/ProviderKeyRing"
import { EffectiveLlm } from "model-gateway/application/llm/EffectiveLlm"
import { Memories } from "model-gateway/application/memory/Memories"
import { Resources } from "model-gateway/application/resource/Resources"
import { Search } from "model-gateway/application/search/Search"
import { SessionId } from "model-gateway/domain/conversation/Session"
import { type SessionEvent, endsTurn } from "model-gateway/domain/conversation/SessionEvent"
import type { OrganizationId } from "model-gateway/domain/shared/Ids"

/**
 * A background worker that talks with the agent of a workspace and serves nothing: messages come from a queue. Copy it
 * and change what is below `Conversations`: the stores, what runs the turns, the vendors.
 */

/** A message of the queue, and where its answer goes. */
export interface Job {
  readonly workspace: OrganizationId
  readonly session: string
  readonly text: string
  readonly answer: Deferred.Deferred<SessionEvent>
}

/** Takes jobs one after the other, for ever. One is done when its turn has ended, however that was. */
export const worker = Effect.fn("worker")(function* (jobs: Queue.Dequeue<Job>) {
  const messages = yield* SendMessage
  const listen = yield* Listen

  const converse = Effect.fn("converse")(function* ({ answer, text, workspace, ...job }: Job) {
    const session = SessionId.make(job.session)
    const ended = yield* Deferred.make<SessionEvent>()
    const listener = listen.open(workspace, {
      told: ({ event }) => {
        if (endsTurn(event)) Deferred.doneUnsafe(ended, Effect.succeed(event))
      },
      room: Effect.void
    })
    yield* listener.subscribe(session, undefined)
    yield* messages.send(workspace, { session, content: text, stream: false, caller: null })
    yield* Effect.ensuring(Deferred.await(ended), Effect.sync(listener.stop)).pipe(
      Effect.flatMap((event) => Deferred.succeed(answer, event))
    )
  })

  return yield* Effect.forever(Effect.flatMap(Queue.take(jobs), converse))
})

const agents = Layer.mergeAll(EffectiveLlm.layer, RunningAgents.layer).pipe(
  Layer.provide(AgentBackups.layer),
  Layer.provide(McpConnectorLive.layer({ stdio: "refused", environment: {} })),
  Layer.provideMerge(CurrentAgent.layer),
  Layer.provideMerge(Layer.merge(AgentYamlLive.layer, PackagedAgentsLive.layer))
)

/** The gateway's own models. */
const models = CompleteChat.layer.pipe(
  Layer.provide([HoldKeeper.layer, Models.layer]),
  Layer.provide(ProviderKeyRing.layer),
  Layer.provideMerge(ProvidersLive.layer),
  Layer.provideMerge(
    Layer.mergeAll(Catalogue.layer({ providers: [], modelsFile: undefined, echo: true }), VendorsLive.layer([]))
  ),
  Layer.provideMerge(ExternalModelsLive.layer(new Map()))
)

/**
 * Conversations without HTTP, but for their stores and for what runs turns: `TurnRunnerInMemory.layer` over
 * `InMemoryLive.layer` in a test, `ClusterLive.layerServer` over Postgres to share the work with other processes.
 */
export const Conversations = Layer.merge(SendMessage.layer, Listen.layer).pipe(
  Layer.provide(Attachments.layer),
  Layer.provideMerge(SessionsOfWorkspace.layer)
)

/** What a runner of turns needs, over any stores. */
export const TurnParts = Turns.layer.pipe(
  Layer.provideMerge(CallModel.layer),
  Layer.provide(Layer.mergeAll(Memories.layer, Search.layer)),
  Layer.provide(Resources.layer),
  Layer.provide(HostFilesLive.layer({ roots: [], except: [] })),
  Layer.provideMerge(agents),
  Layer.provideMerge(models),
  Layer.provideMerge(Environment.layer),
  Layer.provideMerge(Accounts.layer),
  Layer.provideMerge(EgressLive.layer({ allowPrivate: false })),
  Layer.provideMerge(
    Layer.mergeAll(IdsLive.layer, KeyTextsLive.layer, NanoIdsLive.layer, TokenizerLive.layer, NodeServices.layer)
  )
)
