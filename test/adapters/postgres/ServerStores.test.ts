import { allowedToolsSuite } from "../../conformance/AllowedTools.ts"
import { apiKeysSuite } from "../../conformance/ApiKeys.ts"
import { blobsSuite } from "../../conformance/Blobs.ts"
import { customPromptsSuite } from "../../conformance/CustomPrompts.ts"
import { eventLogSuite } from "../../conformance/EventLog.ts"
import { idempotentAnswersSuite } from "../../conformance/IdempotentAnswers.ts"
import { ledgerSuite } from "../../conformance/Ledger.ts"
import { membersSuite } from "../../conformance/Members.ts"
import { memoryStoreSuite } from "../../conformance/MemoryStore.ts"
import { organizationsSuite } from "../../conformance/Organizations.ts"
import { rateLimitsSuite } from "../../conformance/RateLimits.ts"
import { sessionLlmsSuite } from "../../conformance/SessionLlms.ts"
import { sessionsSuite } from "../../conformance/Sessions.ts"
import { storeHealthSuite } from "../../conformance/StoreHealth.ts"
import { turnJournalSuite } from "../../conformance/TurnJournal.ts"
import { usageEventsSuite } from "../../conformance/UsageEvents.ts"
import { workspaceFilesSuite } from "../../conformance/WorkspaceFiles.ts"
import { freshDatabase } from "../../fixtures/Postgres.ts"
import { onServer, shared } from "./Stores.ts"

const store = shared(onServer(await freshDatabase("stores")))

organizationsSuite("Organizations on Postgres", store)
membersSuite("Members on Postgres", store)
apiKeysSuite("ApiKeys on Postgres", store)
blobsSuite("Blobs on Postgres", store)
customPromptsSuite("CustomPrompts on Postgres", store)
memoryStoreSuite("MemoryStore on Postgres", store)
eventLogSuite("EventLog on Postgres", store)
idempotentAnswersSuite("IdempotentAnswers on Postgres", store)
ledgerSuite("Ledger on Postgres", store)
rateLimitsSuite("RateLimits on Postgres", store)
usageEventsSuite("UsageEvents on Postgres", store)
workspaceFilesSuite("WorkspaceFiles on Postgres", store)
allowedToolsSuite("AllowedTools on Postgres", store)
sessionLlmsSuite("SessionLlms on Postgres", store)
sessionsSuite("Sessions on Postgres", store)
turnJournalSuite("TurnJournal on Postgres", store)
storeHealthSuite("StoreHealth on Postgres", store)
