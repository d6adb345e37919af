import { text, usage } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { type Answer, plain } from "../fixtures/openai/Reply.ts"

/** What every request of the soak uses as input, in tokens. */
export const input = 8

/** One request, decided before the run, so that a seed makes the same requests again. */
export interface Planned {
  /** Also what the request says to the model: the upstream knows it by that. */
  readonly requestId: string
  readonly stream: boolean
  /** Tokens of the whole answer, one for each piece of a stream. */
  readonly output: number
  /** Milliseconds after which the client leaves, if it does not stay to the end. */
  readonly leavesAfter: number | undefined
  /** What goes wrong upstream, attempt by attempt. */
  readonly troubles: ReadonlyArray<Trouble>
}

/** What an upstream does, and how often in a thousand attempts; otherwise it answers well. */
const odds = {
  /** It hangs for a moment first. */
  slow: 60,
  failing: 30,
  busy: 15,
  /** Its connection breaks before the first byte. */
  reset: 20,
  /** Its connection breaks, or closes, in the middle. */
  broken: 20,
  cut: 20,
  /** A stream that ends well as HTTP, without its end; a whole answer with nothing in it. */
  truncated: 20,
  malformed: 20
}
type Trouble = keyof typeof odds | "none"

/** Milliseconds between two pieces of a stream. */
const pace = 10

const leaving = 0.1
const streaming = 0.5
const mostOutput = 12

/** Attempts of one request: the first one and two more. */
const attempts = 3

export const planSoak = (count: number, seed: number): ReadonlyArray<Planned> => {
  const random = generator(seed)
  const below = (most: number) => Math.floor(random() * most)
  const trouble = (): Trouble => {
    let left = below(1_000)
    for (const [name, odd] of Object.entries(odds)) {
      if (left < odd && isTrouble(name)) return name
      left -= odd
    }
    return "none"
  }
  return Array.from({ length: count }, (_, index) => ({
    requestId: `soak-${seed}-${index}`,
    stream: random() < streaming,
    output: 2 + below(mostOutput - 1),
    leavesAfter: random() < leaving ? below(mostOutput * pace * 2) : undefined,
    troubles: Array.from({ length: attempts }, trouble)
  }))
}

const isTrouble = (name: string): name is Trouble => Object.hasOwn(odds, name)

/** Numbers from 0 to 1, the same ones for the same seed (mulberry32). */
const generator = (seed: number) => {
  let state = seed
  return (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export interface SoakUpstream {
  readonly answer: Answer
  /** The requests for which something of an answer was sent: for others nobody may pay. */
  readonly spoke: ReadonlySet<string>
}

/** The upstream of a plan, for `fake.respond`. */
export const soakUpstream = (plan: ReadonlyArray<Planned>): SoakUpstream => {
  const planned = new Map(plan.map((one) => [one.requestId, one]))
  const tried = new Map<string, number>()
  const spoke = new Set<string>()
  const answer: Answer = (request) => {
    const said = request.body.messages[0]?.content
    const one = typeof said === "string" ? planned.get(said) : undefined
    if (one === undefined) throw new Error(`nobody planned the request ${JSON.stringify(said)}`)
    const attempt = tried.get(one.requestId) ?? 0
    tried.set(one.requestId, attempt + 1)
    const trouble = one.troubles[attempt] ?? "none"
    if (speaks(trouble, one.stream)) void request.ended.then(({ sent }) => sent > 0 && spoke.add(one.requestId))
    return answerOf(trouble, one)(request)
  }
  return { answer, spoke }
}

const speaks = (trouble: Trouble, stream: boolean): boolean =>
  trouble === "none" ||
  trouble === "slow" ||
  (stream && (trouble === "broken" || trouble === "cut" || trouble === "truncated" || trouble === "malformed"))

const answerOf = (trouble: Trouble, { output, stream }: Planned): Answer => {
  const pieces = Array.from({ length: output }, () => " word")
  const well = text(pieces.join(""), { pieces, usage: usage({ prompt: input, completion: output }) })
  const paced = stream ? inSteps(well) : Faults.after(pace)(well)
  switch (trouble) {
    case "none":
      return paced
    case "slow":
      return Faults.after(300)(paced)
    case "failing":
      return Errors.error(500, { message: "The server had an error.", type: "server_error" })
    case "busy":
      return Errors.rateLimited("1")
    case "reset":
      return Faults.resetAfter(0)(well)
    case "broken":
      return stream ? inSteps(Faults.resetAfter(3)(well)) : Faults.resetAfter(1)(half)
    case "cut":
      return stream ? inSteps(Faults.cutAfter(3)(well)) : Faults.cutAfter(1)(half)
    case "truncated":
      return stream ? inSteps(Faults.truncateAfter(3)(well)) : Faults.truncateAfter(0)(well)
    case "malformed":
      return stream ? inSteps(Faults.insertAt(3, `data: {"choices":\n\n`)(well)) : half
  }
}

/** One piece at a time. */
const inSteps = Faults.every(pace)

/** The first bytes of a completion, and nothing more of it. */
const half = plain(200, `{"id":"chatcmpl-1","choices":[`, { "content-type": "application/json" })
