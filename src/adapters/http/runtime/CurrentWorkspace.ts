import { Context } from "effect"
import type { Caller } from "../../../domain/identity/ApiKey.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/** On whose workspace a request works, and who sends it: nobody known while the runtime is open (decisions 1). */
export class CurrentWorkspace extends Context.Service<
  CurrentWorkspace,
  { readonly id: OrganizationId; readonly caller: Caller | undefined }
>()("gateway/http/CurrentWorkspace") {}
