import { Duration } from "effect"

/** How long an upstream may take. */
export interface Deadlines {
  /** Until a connection stands. */
  readonly connect: Duration.Duration
  /** From the sent request to the first byte of the answer's body. Its head says nothing: many send it at once. */
  readonly firstByte: Duration.Duration
  /** Between two pieces of an answer. */
  readonly idle: Duration.Duration
  /** For the whole answer. Looked at whenever something of it arrives, so silence can add `idle` to it. */
  readonly total: Duration.Duration
}

/** Models think long before their first byte, but not between two. */
export const usualDeadlines: Deadlines = {
  connect: Duration.seconds(10),
  firstByte: Duration.minutes(5),
  idle: Duration.minutes(2),
  total: Duration.minutes(60)
}

/** The same in milliseconds, as timers take them: none is longer than the whole answer may take. */
export interface DeadlineMillis {
  readonly connect: number
  readonly firstByte: number
  readonly idle: number
  readonly total: number
}

export const toMillis = ({ connect, firstByte, idle, total }: Deadlines): DeadlineMillis => {
  const whole = (duration: Duration.Duration) => Math.max(1, Math.round(Duration.toMillis(duration)))
  const most = whole(total)
  return {
    connect: whole(connect),
    firstByte: Math.min(whole(firstByte), most),
    idle: Math.min(whole(idle), most),
    total: most
  }
}
