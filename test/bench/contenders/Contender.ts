import { Schema } from "effect"

/** `direct` is the upstream itself; `bare-node` the yardstick of a route that has no upstream. */
export const contenderNames = ["direct", "nginx", "node-undici", "portkey", "gateway", "bare-node"] as const
export type ContenderName = (typeof contenderNames)[number]

/** A server under load; all but `bare-node` take the same completions request and lead to the same upstream. */
export interface Contender {
  readonly name: ContenderName
  /** `http://127.0.0.1:<port>` */
  readonly origin: string
  /** What a caller of this contender has to send besides the body. */
  readonly headers: Record<string, string>
  readonly pid: number
}

/** The contender is not on this machine; the run goes on without it and says so. */
export class ContenderMissing extends Schema.TaggedError<ContenderMissing>()("ContenderMissing", {
  name: Schema.Literals(contenderNames),
  reason: Schema.String
}) {
  override get message() {
    return `${this.name} left out: ${this.reason}`
  }
}
