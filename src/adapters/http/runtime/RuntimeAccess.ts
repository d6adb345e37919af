import { Context } from "effect"

/** Who may use the runtime (decisions 1). */
export class RuntimeAccess extends Context.Service<
  RuntimeAccess,
  {
    /**
     * Nobody needs a key: a request without one works on the workspace of the organization `default`. Only for a
     * service that is bound to a loopback address.
     */
    readonly open: boolean
    /** Origins of pages that may use the service from a browser, as `CORS_ORIGINS` lists them. */
    readonly origins: ReadonlyArray<string>
  }
>()("gateway/http/RuntimeAccess") {}

/** Whether a page of this origin may use the service: a listed one or, while it is open, one of this machine. */
export const allowsOrigin = ({ open, origins }: RuntimeAccess["Service"], origin: string): boolean =>
  origins.includes(origin) || (open && URL.canParse(origin) && isLoopback(new URL(origin).hostname))

/** Whether a name or address of a `Host` or an `Origin` is of this machine itself. */
export const isLoopback = (hostname: string): boolean =>
  /^(?:localhost|(?:[a-z0-9-]+\.)*localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i.test(hostname)

/** The name in a header `Host`, without the port. */
export const hostnameOf = (host: string): string => host.replace(/:\d*$/, "")

/**
 * A page from elsewhere that got at an open service through the browser of its user: by a name that leads to this
 * machine (DNS rebinding), or by a request that browsers send without asking.
 */
export const strangerOf = (
  access: RuntimeAccess["Service"],
  { host, origin }: { readonly host?: string | undefined; readonly origin?: string | undefined }
): string | undefined => {
  if (!access.open) return undefined
  if (host !== undefined && !isLoopback(hostnameOf(host))) {
    return `This service is open to its own machine only, not by the name ${JSON.stringify(host)}. Set API_AUTH=required to use it by other names.`
  }
  if (origin !== undefined && !allowsOrigin(access, origin)) {
    return `Pages of ${JSON.stringify(origin)} may not use this service. List the origin in CORS_ORIGINS to let them.`
  }
  return undefined
}
