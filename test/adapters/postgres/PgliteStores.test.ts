import { apiKeysSuite } from "../../conformance/ApiKeys.ts"
import { idempotentAnswersSuite } from "../../conformance/IdempotentAnswers.ts"
import { ledgerSuite } from "../../conformance/Ledger.ts"
import { membersSuite } from "../../conformance/Members.ts"
import { organizationsSuite } from "../../conformance/Organizations.ts"
import { providerKeysSuite } from "../../conformance/ProviderKeys.ts"
import { rateLimitsSuite } from "../../conformance/RateLimits.ts"
import { storeHealthSuite } from "../../conformance/StoreHealth.ts"
import { usageEventsSuite } from "../../conformance/UsageEvents.ts"
import { onPglite, shared, temporaryDirectory } from "./Stores.ts"

const store = shared(onPglite(await temporaryDirectory()))

organizationsSuite("Organizations on PGlite", store)
membersSuite("Members on PGlite", store)
apiKeysSuite("ApiKeys on PGlite", store)
providerKeysSuite("ProviderKeys on PGlite", store)
idempotentAnswersSuite("IdempotentAnswers on PGlite", store)
ledgerSuite("Ledger on PGlite", store)
rateLimitsSuite("RateLimits on PGlite", store)
usageEventsSuite("UsageEvents on PGlite", store)
storeHealthSuite("StoreHealth on PGlite", store)
