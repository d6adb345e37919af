import { Array, Clock, Context, Effect, Layer, Option } from "effect"
import { ApiKey, keyPrefix } from "../../domain/identity/ApiKey.ts"
import { type NameTaken, UnknownName } from "../../domain/identity/IdentityErrors.ts"
import { Member, type Role } from "../../domain/identity/Member.ts"
import { Organization } from "../../domain/identity/Organization.ts"
import { ApiKeyId, MemberId, OrganizationId } from "../../domain/shared/Ids.ts"
import type { NanoUsd } from "../../domain/shared/Money.ts"
import { Ids } from "../ports/runtime/Ids.ts"
import { KeyTexts } from "../ports/runtime/KeyTexts.ts"
import { ApiKeys } from "../ports/storage/ApiKeys.ts"
import { type Credit, Ledger } from "../ports/storage/Ledger.ts"
import { Members } from "../ports/storage/Members.ts"
import { Organizations } from "../ports/storage/Organizations.ts"

/** A key just made; its text exists nowhere else. */
export interface IssuedKey {
  readonly text: string
  readonly key: ApiKey
  readonly member: Member
}

/** What the operator does with organizations, members, keys and credit. Things are named as people name them. */
export class Accounts extends Context.Service<
  Accounts,
  {
    readonly createOrganization: (name: string) => Effect.Effect<Organization, NameTaken>
    readonly organization: (name: string) => Effect.Effect<Organization, UnknownName>
    readonly organizations: Effect.Effect<ReadonlyArray<Organization>>
    readonly addMember: (input: {
      readonly organization: string
      readonly name: string
      readonly role: Role
    }) => Effect.Effect<Member, NameTaken | UnknownName>
    readonly members: (organization: string) => Effect.Effect<ReadonlyArray<Member>, UnknownName>
    /** Without a member's name: the organization's first owner. `expiresAt` is epoch milliseconds. */
    readonly issueKey: (input: {
      readonly organization: string
      readonly member?: string
      readonly name: string
      readonly expiresAt?: number
    }) => Effect.Effect<IssuedKey, UnknownName>
    readonly keys: (organization: string) => Effect.Effect<ReadonlyArray<ApiKey>, UnknownName>
    readonly revokeKey: (id: string) => Effect.Effect<ApiKey, UnknownName>
    readonly grantCredit: (input: {
      readonly organization: string
      readonly amount: NanoUsd
      readonly note: string
    }) => Effect.Effect<NanoUsd, UnknownName>
    readonly credit: (organization: string) => Effect.Effect<Credit, UnknownName>
  }
>()("gateway/identity/Accounts") {
  static readonly layer = Layer.effect(
    Accounts,
    Effect.gen(function* () {
      const organizations = yield* Organizations
      const members = yield* Members
      const apiKeys = yield* ApiKeys
      const ledger = yield* Ledger
      const texts = yield* KeyTexts
      const ids = yield* Ids

      const createOrganization = Effect.fn("Accounts.createOrganization")(function* (name: string) {
        const organization = new Organization({
          id: OrganizationId.make(yield* ids.next),
          name,
          createdAt: yield* Clock.currentTimeMillis
        })
        yield* organizations.insert(organization)
        return organization
      })

      const organization = Effect.fn("Accounts.organization")(function* (name: string) {
        return yield* Option.match(yield* organizations.findByName(name), {
          onNone: () => Effect.fail(new UnknownName({ kind: "organization", name })),
          onSome: Effect.succeed
        })
      })

      const addMember = Effect.fn("Accounts.addMember")(function* (input: {
        readonly organization: string
        readonly name: string
        readonly role: Role
      }) {
        const member = new Member({
          id: MemberId.make(yield* ids.next),
          organizationId: (yield* organization(input.organization)).id,
          name: input.name,
          role: input.role,
          createdAt: yield* Clock.currentTimeMillis
        })
        yield* members.insert(member)
        return member
      })

      const membersOf = Effect.fn("Accounts.members")(function* (name: string) {
        return yield* members.list((yield* organization(name)).id)
      })

      const issueKey = Effect.fn("Accounts.issueKey")(function* (input: {
        readonly organization: string
        readonly member?: string
        readonly name: string
        readonly expiresAt?: number
      }) {
        const { id: organizationId } = yield* organization(input.organization)
        const holder = Array.findFirst(yield* members.list(organizationId), ({ name, role }) =>
          input.member === undefined ? role === "owner" : name === input.member
        )
        if (Option.isNone(holder)) return yield* new UnknownName({ kind: "member", name: input.member ?? "owner" })
        const text = yield* texts.generate
        const key = new ApiKey({
          id: ApiKeyId.make(yield* ids.next),
          organizationId,
          memberId: holder.value.id,
          name: input.name,
          hint: text.slice(0, keyPrefix.length + 6),
          createdAt: yield* Clock.currentTimeMillis,
          expiresAt: input.expiresAt ?? null,
          revokedAt: null
        })
        yield* apiKeys.insert(key, texts.digest(text))
        return { text, key, member: holder.value }
      })

      const keys = Effect.fn("Accounts.keys")(function* (name: string) {
        return yield* apiKeys.list((yield* organization(name)).id)
      })

      const revokeKey = Effect.fn("Accounts.revokeKey")(function* (id: string) {
        const revoked = yield* apiKeys.revoke(ApiKeyId.make(id), yield* Clock.currentTimeMillis)
        if (Option.isNone(revoked)) return yield* new UnknownName({ kind: "API key", name: id })
        return revoked.value
      })

      const grantCredit = Effect.fn("Accounts.grantCredit")(function* (input: {
        readonly organization: string
        readonly amount: NanoUsd
        readonly note: string
      }) {
        return yield* ledger.grant((yield* organization(input.organization)).id, input.amount, input.note)
      })

      const credit = Effect.fn("Accounts.credit")(function* (name: string) {
        return yield* ledger.credit((yield* organization(name)).id)
      })

      return Accounts.of({
        createOrganization,
        organization,
        organizations: organizations.list,
        addMember,
        members: membersOf,
        issueKey,
        keys,
        revokeKey,
        grantCredit,
        credit
      })
    })
  )
}
