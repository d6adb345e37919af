import { apiKeysSuite } from "../../conformance/ApiKeys.ts"
import { idempotentAnswersSuite } from "../../conformance/IdempotentAnswers.ts"
import { ledgerSuite } from "../../conformance/Ledger.ts"
import { membersSuite } from "../../conformance/Members.ts"
import { organizationsSuite } from "../../conformance/Organizations.ts"
import { providerKeysSuite } from "../../conformance/ProviderKeys.ts"
import { rateLimitsSuite } from "../../conformance/RateLimits.ts"
import { storeHealthSuite } from "../../conformance/StoreHealth.ts"
import { usageEventsSuite } from "../../conformance/UsageEvents.ts"
import { store } from "./Store.ts"

organizationsSuite("Organizations in memory", store)
membersSuite("Members in memory", store)
apiKeysSuite("ApiKeys in memory", store)
providerKeysSuite("ProviderKeys in memory", store)
idempotentAnswersSuite("IdempotentAnswers in memory", store)
ledgerSuite("Ledger in memory", store)
usageEventsSuite("UsageEvents in memory", store)
rateLimitsSuite("RateLimits in memory", store)
storeHealthSuite("StoreHealth in memory", store)
