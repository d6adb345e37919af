import { apiKeysSuite } from "../../conformance/ApiKeys.ts"
import { ledgerSuite } from "../../conformance/Ledger.ts"
import { membersSuite } from "../../conformance/Members.ts"
import { organizationsSuite } from "../../conformance/Organizations.ts"
import { storeHealthSuite } from "../../conformance/StoreHealth.ts"
import { usageEventsSuite } from "../../conformance/UsageEvents.ts"
import { onPglite, shared, temporaryDirectory } from "./Stores.ts"

const store = shared(onPglite(await temporaryDirectory()))

organizationsSuite("Organizations on PGlite", store)
membersSuite("Members on PGlite", store)
apiKeysSuite("ApiKeys on PGlite", store)
ledgerSuite("Ledger on PGlite", store)
usageEventsSuite("UsageEvents on PGlite", store)
storeHealthSuite("StoreHealth on PGlite", store)
