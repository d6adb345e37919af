import { Schema } from "effect"
import { ApiKeyId, MemberId, OrganizationId } from "../shared/Ids.ts"
import { Role } from "./Member.ts"

/** The text of every key begins so. */
export const keyPrefix = "sk-gw-"

/**
 * A key as the service remembers it: never its text, only what shows which key it is. Times are epoch milliseconds;
 * `expiresAt` and `revokedAt` are null while they do not apply.
 */
export class ApiKey extends Schema.Class<ApiKey>("ApiKey")({
  id: ApiKeyId,
  organizationId: OrganizationId,
  memberId: MemberId,
  name: Schema.String.check(Schema.isBetweenLength(1, 100)),
  /** The first characters of the key's text. */
  hint: Schema.String,
  createdAt: Schema.Int,
  expiresAt: Schema.NullOr(Schema.Int),
  revokedAt: Schema.NullOr(Schema.Int)
}) {
  /** How long it may still be used, in milliseconds; infinite while it neither expires nor is revoked. */
  usableFor(now: number): number {
    return this.revokedAt !== null
      ? 0
      : this.expiresAt === null
        ? Number.POSITIVE_INFINITY
        : Math.max(0, this.expiresAt - now)
  }

  isUsableAt(now: number): boolean {
    return this.usableFor(now) > 0
  }
}

/** Stands in the books for the key of what was asked without one: agents, while the runtime is open (decisions 1). */
export const noKey = ApiKeyId.make("none")

/** Who calls: what a valid key stands for. */
export class Caller extends Schema.Class<Caller>("Caller")({
  organizationId: OrganizationId,
  memberId: MemberId,
  role: Role,
  keyId: ApiKeyId
}) {}
