import { Effect } from "effect"
import { startPostgres } from "../machine/Postgres.ts"
import { orNote } from "../report/Notes.ts"
import { checkAnswers } from "./AnswerCheck.ts"
import type { Contender } from "./Contender.ts"
import { startUpstream } from "./Direct.ts"
import { startGateway } from "./Gateway.ts"
import { startNginx } from "./Nginx.ts"
import { startNodeProxy } from "./NodeProxy.ts"
import { startPortkey } from "./Portkey.ts"

/** Everything that can be started on this machine, each checked to deliver what the upstream sends. */
export const startField = Effect.fn("startField")(function* () {
  const upstream = yield* startUpstream()
  const started = [
    upstream,
    yield* orNote("contender", startNginx(upstream)),
    yield* orNote("contender", startNodeProxy(upstream)),
    yield* orNote("contender", startPortkey(upstream))
  ]
  const database = yield* startPostgres()
  const gateway = yield* orNote("contender", startGateway(upstream, database))
  const contenders: Array<Contender> = []
  for (const contender of [...started, gateway?.contender]) {
    if (contender === undefined) continue
    const right = yield* orNote("contender", Effect.as(checkAnswers(contender), true))
    if (right === true) contenders.push(contender)
  }
  return { upstream, contenders, database, gateway }
})
export type Field = Effect.Success<ReturnType<typeof startField>>
