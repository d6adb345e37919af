import { apiKeysSuite } from "../../conformance/ApiKeys.ts"
import { idempotentAnswersSuite } from "../../conformance/IdempotentAnswers.ts"
import { ledgerSuite } from "../../conformance/Ledger.ts"
import { membersSuite } from "../../conformance/Members.ts"
import { organizationsSuite } from "../../conformance/Organizations.ts"
import { providerKeysSuite } from "../../conformance/ProviderKeys.ts"
import { rateLimitsSuite } from "../../conformance/RateLimits.ts"
import { storeHealthSuite } from "../../conformance/StoreHealth.ts"
import { usageEventsSuite } from "../../conformance/UsageEvents.ts"
import { freshDatabase } from "../../fixtures/Postgres.ts"
import { onServer, shared } from "./Stores.ts"

const store = shared(onServer(await freshDatabase("stores")))

organizationsSuite("Organizations on Postgres", store)
membersSuite("Members on Postgres", store)
apiKeysSuite("ApiKeys on Postgres", store)
providerKeysSuite("ProviderKeys on Postgres", store)
idempotentAnswersSuite("IdempotentAnswers on Postgres", store)
ledgerSuite("Ledger on Postgres", store)
rateLimitsSuite("RateLimits on Postgres", store)
usageEventsSuite("UsageEvents on Postgres", store)
storeHealthSuite("StoreHealth on Postgres", store)
