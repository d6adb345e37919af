/** Loaded before the service (`node --import`): its wall clock is off by `CLOCK_OFFSET` milliseconds, timers are not. */
const offset = Number(process.env["CLOCK_OFFSET"])
if (!Number.isSafeInteger(offset)) throw new Error("CLOCK_OFFSET is not a number of milliseconds")

const right = Date.now.bind(Date)
const now = () => right() + offset

Date.now = now
globalThis.Date = new Proxy(Date, {
  construct: (date, args, newTarget: NewableFunction) =>
    Reflect.construct(date, args.length === 0 ? [now()] : args, newTarget) as Date
})
