import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { executionIdOf, TurnWorkflow } from "../../../src/adapters/cluster/TurnRunnerCluster.ts"
import { OrganizationId } from "../../../src/domain/shared/Ids.ts"
import { sessionId, turnIn } from "../../conformance/Conversation.ts"

it.effect("the execution of a turn has the library's identifier, by which replicas of any version know it", () =>
  Effect.gen(function* () {
    const turn = turnIn(OrganizationId.make(crypto.randomUUID()), sessionId())
    assert.strictEqual(executionIdOf(turn), yield* TurnWorkflow.executionId(turn))
  })
)
