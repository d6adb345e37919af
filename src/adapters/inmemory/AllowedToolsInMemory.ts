import { Effect, Layer } from "effect"
import { AllowedTools } from "../../application/ports/storage/AllowedTools.ts"
import type { AgentId } from "../../domain/agent/Agent.ts"
import type { SessionId } from "../../domain/conversation/Session.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { State } from "./State.ts"

interface Allowed {
  readonly agent: AgentId
  readonly session: SessionId | undefined
  readonly tool: string
}

export const layer = Layer.effect(
  AllowedTools,
  Effect.gen(function* () {
    const { organizations } = yield* State
    const stored = new Map<OrganizationId, ReadonlyArray<Allowed>>()

    const keep = (workspace: OrganizationId, keeps: (allowed: Allowed) => boolean) =>
      Effect.sync(() => void stored.set(workspace, (stored.get(workspace) ?? []).filter(keeps)))

    return AllowedTools.of({
      allow: (workspace, { agent, session }, tool) =>
        Effect.suspend(() => {
          if (!organizations.has(workspace)) return Effect.die(new Error(`no organization ${workspace}`))
          stored.set(workspace, [...(stored.get(workspace) ?? []), { agent, session, tool }])
          return Effect.void
        }),
      of: (workspace, { agent, session }) =>
        Effect.sync(
          () =>
            new Set(
              (stored.get(workspace) ?? [])
                .filter((allowed) => allowed.agent === agent && allowed.session === session)
                .map(({ tool }) => tool)
            )
        ),
      forgetSession: (workspace, session) => keep(workspace, (allowed) => allowed.session !== session),
      forgetAgent: (workspace, agent) => keep(workspace, (allowed) => allowed.agent !== agent)
    })
  })
)
