import type { NetworkInterfaceInfo } from "node:os"
import { expect, test } from "vitest"
import { ownPrivateAddress } from "../../../src/adapters/config/OwnAddress.ts"

const at = (address: string, internal = false): NetworkInterfaceInfo => {
  const rest = { address, netmask: "", mac: "", internal, cidr: null }
  return address.includes(":") ? { ...rest, family: "IPv6", scopeid: 0 } : { ...rest, family: "IPv4" }
}

const lo = [at("127.0.0.1", true), at("::1", true)]

test.each([
  { machine: "a container", interfaces: { lo, eth0: [at("172.17.0.2"), at("fe80::1")] }, own: "172.17.0.2" },
  { machine: "a pod", interfaces: { lo, eth0: [at("fe80::1"), at("10.244.1.7")] }, own: "10.244.1.7" },
  { machine: "a pod with IPv6 only", interfaces: { lo, eth0: [at("fe80::1"), at("fd00:10::7")] }, own: "fd00:10::7" },
  {
    machine: "a host of containers in a private network",
    interfaces: { lo, docker0: [at("172.17.0.1")], "br-1a2b": [at("172.18.0.1")], eth0: [at("192.168.1.5")] },
    own: "192.168.1.5"
  },
  {
    machine: "a host with a public and a private network",
    interfaces: { lo, eth0: [at("203.0.113.5"), at("2001:db8::5")], eth1: [at("fd00::5"), at("10.0.0.5")] },
    own: "10.0.0.5"
  },
  { machine: "a host with a public address alone", interfaces: { lo, eth0: [at("8.8.8.8")] }, own: "127.0.0.1" },
  { machine: "a machine without a network", interfaces: { lo }, own: "127.0.0.1" }
])("$machine is reached at $own", ({ interfaces, own }) => {
  expect(ownPrivateAddress(interfaces)).toBe(own)
})
