import { Predicate } from "effect"

/** The top-level keys of a configuration whose values are not what they were, in their order (section 4.2). */
export const changedKeys = (before: unknown, after: unknown): ReadonlyArray<string> => {
  const [old, now] = [before, after].map((value) => (Predicate.isObject(value) ? value : {}))
  return [...new Set([...Object.keys({ ...now }), ...Object.keys({ ...old })])].filter(
    (key) => !isSame(valueOf(old, key), valueOf(now, key))
  )
}

/** What an agent only reads when it is asked, so that it need not be started anew. */
const readAsItRuns: ReadonlySet<string> = new Set(["agentCard", "greeting", "starterPrompts"])

/** Whether an agent has to be started anew to follow changes of these keys. */
export const needsRestart = (changes: ReadonlyArray<string>): boolean => changes.some((key) => !readAsItRuns.has(key))

const valueOf = (value: object | undefined, key: string): unknown =>
  value !== undefined && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined

/** The order of keys says nothing, that of items does. */
const isSame = (a: unknown, b: unknown): boolean => {
  if (Object.is(a, b)) return true
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, at) => isSame(item, b[at]))
  }
  if (!Predicate.isObject(a) || !Predicate.isObject(b)) return false
  const keys = Object.keys(a)
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && isSame(valueOf(a, key), valueOf(b, key)))
  )
}
