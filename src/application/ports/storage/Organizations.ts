import { Context, type Effect, type Option } from "effect"
import type { NameTaken } from "../../../domain/identity/IdentityErrors.ts"
import type { Organization } from "../../../domain/identity/Organization.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/** Where organizations are kept. Names are unique. Oldest first in every listing. */
export class Organizations extends Context.Service<
  Organizations,
  {
    /** A new organization has an account with no credit. */
    readonly insert: (organization: Organization) => Effect.Effect<void, NameTaken>
    readonly findById: (id: OrganizationId) => Effect.Effect<Option.Option<Organization>>
    readonly findByName: (name: string) => Effect.Effect<Option.Option<Organization>>
    readonly list: Effect.Effect<ReadonlyArray<Organization>>
  }
>()("gateway/ports/storage/Organizations") {}
