import { Effect } from "effect"
import type { HoldRequest } from "../../src/application/ports/storage/Ledger.ts"
import { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { Members } from "../../src/application/ports/storage/Members.ts"
import { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import type { Purpose, Settlement } from "../../src/domain/billing/CreditHold.ts"
import { none, type Usage } from "../../src/domain/billing/Usage.ts"
import { ApiKey } from "../../src/domain/identity/ApiKey.ts"
import { Member } from "../../src/domain/identity/Member.ts"
import { Organization } from "../../src/domain/identity/Organization.ts"
import { ApiKeyId, HoldId, MemberId, OrganizationId } from "../../src/domain/shared/Ids.ts"
import { nanoUsd } from "../../src/domain/shared/Money.ts"

/** Things that no other test has, so that stores can be shared and kept. */

export const organization = (fields: Partial<Organization> = {}): Organization => {
  const id = OrganizationId.make(crypto.randomUUID())
  return new Organization({ id, name: id, createdAt: 1, ...fields })
}

export const member = (organizationId: OrganizationId, fields: Partial<Member> = {}): Member => {
  const id = MemberId.make(crypto.randomUUID())
  return new Member({ id, organizationId, name: id, role: "member", createdAt: 1, ...fields })
}

export const apiKey = ({ id: memberId, organizationId }: Member, fields: Partial<ApiKey> = {}): ApiKey =>
  new ApiKey({
    id: ApiKeyId.make(crypto.randomUUID()),
    organizationId,
    memberId,
    name: "laptop",
    hint: "sk-gw-abc123",
    createdAt: 1,
    expiresAt: null,
    revokedAt: null,
    ...fields
  })

export const digest = (): string => crypto.randomUUID().replaceAll("-", "").repeat(2)

/** An organization that is in the store, with so much credit. */
export const account = Effect.fnUntraced(function* (credit = 0n) {
  const made = organization()
  yield* (yield* Organizations).insert(made)
  if (credit > 0n) yield* (yield* Ledger).grant(made.id, nanoUsd(credit), "sample")
  return made.id
})

/** A member that is in the store, of an organization that is in the store. */
export const signedUp = Effect.fnUntraced(function* (fields: Partial<Member> = {}) {
  const made = member(yield* account(), fields)
  yield* (yield* Members).insert(made)
  return made
})

/** Asks for `most`, content with `least`, by default with nothing less. */
export const holdRequest = (
  organizationId: OrganizationId,
  most: bigint,
  { least = most, ...purpose }: { readonly least?: bigint } & Partial<Purpose> = {}
): HoldRequest => ({
  id: HoldId.make(crypto.randomUUID()),
  purpose: {
    organizationId,
    memberId: MemberId.make("member"),
    keyId: ApiKeyId.make("key"),
    requestId: "request",
    model: "model",
    accessMethod: "service",
    ...purpose
  },
  least: nanoUsd(least),
  most: nanoUsd(most)
})

export const settlement = (holdId: HoldId, cost: bigint, usage: Partial<Usage> = {}): Settlement => ({
  holdId,
  usage: { ...none, input: 1, output: 1, ...usage },
  cost: nanoUsd(cost),
  estimated: false
})
