import { Context, type Effect } from "effect"
import type { NameTaken } from "../../../domain/identity/IdentityErrors.ts"
import type { Member } from "../../../domain/identity/Member.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/** Where members are kept. Names are unique in an organization. Oldest first in every listing. */
export class Members extends Context.Service<
  Members,
  {
    readonly insert: (member: Member) => Effect.Effect<void, NameTaken>
    readonly list: (organization: OrganizationId) => Effect.Effect<ReadonlyArray<Member>>
  }
>()("gateway/ports/storage/Members") {}
