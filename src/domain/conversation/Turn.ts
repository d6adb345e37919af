import { Schema } from "effect"
import { OrganizationId } from "../shared/Ids.ts"
import { SessionId } from "./Session.ts"

/** One user message and all that follows until the agent's answer (decisions 6). Sortable by the time of its making. */
export const TurnId = Schema.NonEmptyString.pipe(Schema.brand("TurnId"))
export type TurnId = typeof TurnId.Type

/** Where a turn belongs. */
export const TurnRef = Schema.Struct({ workspace: OrganizationId, session: SessionId, turn: TurnId })
export type TurnRef = typeof TurnRef.Type

/**
 * `queued` behind another of its session, then `running`, until it `completed` with a response, `failed` with an error
 * or was `cancelled`, which is an error to those who listen.
 */
export const TurnStatus = Schema.Literals(["queued", "running", "completed", "failed", "cancelled"])
export type TurnStatus = typeof TurnStatus.Type
