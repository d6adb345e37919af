import ipaddr from "ipaddr.js"

/** Public by its number, but answered by the cloud that this machine may run in: with its credentials. */
const metadata: ReadonlySet<string> = new Set(["168.63.129.16"])

const nat64 = ipaddr.IPv6.parseCIDR("64:ff9b::/96")
/** All that is given out; outside it there are old ways of writing IPv4 addresses, such as `::7f00:1`. */
const globalUnicast = ipaddr.IPv6.parseCIDR("2000::/3")
const mapped = ipaddr.IPv6.parseCIDR("::ffff:0:0/96")

/**
 * Whether an IP address is one of the public internet: neither loopback, private, link-local, shared, multicast nor
 * reserved. One that carries an IPv4 address is what that one is.
 */
export const isPublicAddress = (address: string): boolean => {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.parse(address)
  if (parsed instanceof ipaddr.IPv4) return parsed.range() === "unicast" && !metadata.has(parsed.toString())
  if (parsed.match(nat64) || parsed.match(mapped)) {
    return isPublicAddress(ipaddr.fromByteArray(parsed.toByteArray().slice(12)).toString())
  }
  return parsed.match(globalUnicast) && parsed.range() === "unicast"
}
