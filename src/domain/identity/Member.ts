import { Schema } from "effect"
import { MemberId, OrganizationId } from "../shared/Ids.ts"
import { OrganizationName } from "./Organization.ts"

export const Role = Schema.Literals(["owner", "admin", "member"])
export type Role = typeof Role.Type

/** A person or machine of an organization. Names are unique in it. */
export class Member extends Schema.Class<Member>("Member")({
  id: MemberId,
  organizationId: OrganizationId,
  name: OrganizationName,
  role: Role,
  createdAt: Schema.Int
}) {}

/** Owners and admins see the usage of all members, others only their own (section 4.1). */
export const seesAllUsage = (role: Role): boolean => role !== "member"
