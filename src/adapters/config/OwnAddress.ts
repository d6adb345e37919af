import ipaddr from "ipaddr.js"
import { networkInterfaces } from "node:os"

/** The networks of containers on this machine, as seen from the machine: nobody else is on them. */
const bridge = /^(?:docker|br-|veth|virbr|cni)/

const privateRanges: ReadonlySet<string> = new Set(["private", "uniqueLocal", "carrierGradeNat"])

/**
 * Where others of a private network reach this machine, container or pod: the first of its own private addresses.
 * Without any the loopback, which the processes of one machine share. Never a public address: an operator who wants one
 * names it.
 */
export const ownPrivateAddress = (interfaces: ReturnType<typeof networkInterfaces> = networkInterfaces()): string => {
  const addresses = Object.entries(interfaces).flatMap(([name, addresses]) =>
    bridge.test(name) ? [] : (addresses ?? [])
  )
  const found = addresses
    .filter(({ address, internal }) => !internal && privateRanges.has(ipaddr.parse(address).range()))
    .toSorted((one, other) => one.family.localeCompare(other.family))
  return found[0]?.address ?? "127.0.0.1"
}
