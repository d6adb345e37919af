import { Layer } from "effect"
import { AgentTools } from "./AgentTools.ts"
import { AskModel } from "./AskModel.ts"
import { CallTools } from "./CallTools.ts"
import { Instructions } from "./Instructions.ts"
import { ModelMessages } from "./ModelMessages.ts"
import { References } from "./References.ts"
import { RunTurn } from "./RunTurn.ts"

/** `RunTurn` with the parts of a turn: what a runner of turns is built on. */
export const layer = RunTurn.layer.pipe(
  Layer.provide([AskModel.layer, CallTools.layer]),
  Layer.provide([AgentTools.layer, Instructions.layer, ModelMessages.layer, References.layer])
)
