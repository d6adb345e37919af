import { Array, Cause, Effect, Formatter, Logger, Predicate, References } from "effect"

/** What one line says. Fields of the message and annotations stand beside each other, as log searches want them. */
const entry = ({ cause, date, fiber, logLevel, message }: Logger.Options<unknown>) => {
  const [text, ...rest] = Array.ensure(message)
  const said = Predicate.isString(text) ? text : Formatter.format(text)
  const fields: Record<string, unknown> = { ...fiber.getRef(References.CurrentLogAnnotations) }
  const causes = cause.reasons.length > 0 ? [cause] : []
  for (const item of rest) {
    if (Cause.isCause(item)) causes.push(item)
    else if (Predicate.isObject(item)) Object.assign(fields, item)
    else fields["detail"] = item
  }
  if (causes.length > 0) fields["cause"] = causes.map(Cause.pretty).join("\n")
  return { time: date.toISOString(), level: logLevel.toUpperCase(), message: said, fields }
}

const toJson = (options: Logger.Options<unknown>): string => {
  const { fields, ...line } = entry(options)
  const all = { ...line, ...fields }
  return Object.values(fields).every(isPlain) ? JSON.stringify(all) : Formatter.formatJson(all)
}

/** What JSON has a form of. Redacting and unrolling the rest costs more than the line of a request may. */
const isPlain = (value: unknown): boolean =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean" || value === undefined

/** For eyes: the time of day, and `name=value` for every field. */
const toText = (options: Logger.Options<unknown>): string => {
  const {
    fields: { cause, ...fields },
    level,
    message,
    time
  } = entry(options)
  const pairs = Object.entries(fields).map(
    ([name, value]) => ` ${name}=${Predicate.isString(value) ? value : Formatter.formatJson(value)}`
  )
  return (
    `${time.slice(11, 23)} ${level.padEnd(5)} ${message}${pairs.join("")}` +
    (Predicate.isString(cause) ? `\n${cause}` : "")
  )
}

/** Lines of a moment go out in one write: one each would cost more than the line. */
const moment = 20

const make = (format: (options: Logger.Options<unknown>) => string) =>
  Effect.gen(function* () {
    let lines = ""
    const flush = () => {
      if (lines === "") return
      process.stdout.write(lines)
      lines = ""
    }
    yield* Effect.addFinalizer(() => Effect.sync(flush))
    return Logger.make<unknown, void>((options) => {
      if (lines === "") setTimeout(flush, moment)
      lines += `${format(options)}\n`
    })
  })

export const json = make(toJson)

export const text = make(toText)
