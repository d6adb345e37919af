import { Schema } from "effect"
import { OrganizationId } from "../shared/Ids.ts"

/** A name that is easy to type on a command line: `acme`, `team-7`. */
export const OrganizationName = Schema.String.check(
  Schema.isPattern(/^[a-z0-9][a-z0-9_-]{0,62}$/, {
    expected: "1 to 63 of a-z, 0-9, - and _, starting with a letter or a digit"
  })
)

/**
 * The account of the contract: it owns the credit balance, the rate-limit windows, the stored provider keys and one
 * workspace. Times are epoch milliseconds.
 */
export class Organization extends Schema.Class<Organization>("Organization")({
  id: OrganizationId,
  name: OrganizationName,
  createdAt: Schema.Int
}) {}
