import { MethodNotAllowed, UnknownRoute } from "./RouteErrors.ts"

/** Every route of the service, for telling a wrong path from a wrong method. Templates have `:name` segments. */
export interface RouteEntry {
  readonly method: string
  readonly path: string
}

/** Why no route answered this request. */
export const refusal = (
  routes: ReadonlyArray<RouteEntry>,
  method: string,
  path: string
): UnknownRoute | MethodNotAllowed => {
  const methods = routes.filter((route) => matches(route.path, path)).map((route) => route.method)
  if (methods.length === 0) return new UnknownRoute({ path })
  const allowed = methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method]))
  // It was not for the method that the router passed over it, but for escapes that nobody can read.
  if (allowed.includes(method)) return new UnknownRoute({ path })
  return new MethodNotAllowed({ method, path, allowed: [...new Set(allowed)] })
}

const matches = (template: string, path: string): boolean => {
  const wanted = template.split("/")
  const given = path.split("/")
  return (
    wanted.length === given.length &&
    wanted.every((segment, at) => (segment.startsWith(":") ? given[at] !== "" : segment === given[at]))
  )
}

/** The route that a path belongs to, as metrics name it; undefined if there is none. */
export const routeOf = (routes: ReadonlyArray<RouteEntry>, path: string): string | undefined =>
  routes.find((route) => matches(route.path, path))?.path

/** What only unusual targets have: an origin, other ends of the path than `?`, escapes, double slashes, one at the end. */
const unusual = /^[^/]|[;#%]|\/\/|.\/$/

/** The path of a request's target, read as the router reads it, so that both see the same route. */
export const pathOf = (url: string): string => {
  const query = url.indexOf("?")
  const path = query === -1 ? url : url.slice(0, query)
  if (!unusual.test(path)) return path
  const local = path.replace(/^https?:\/\/[^/]*(?=\/)/, "").replace(/[;#].*$/s, "")
  return unescaped(local.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, ""))
}

/** Escaped letters are letters; what would divide a path stays escaped, and so does what cannot be read. */
const unescaped = (path: string): string => {
  try {
    const decoded = decodeURI(path)
    return /\p{Cc}/u.test(decoded) ? path : decoded
  } catch {
    return path
  }
}
