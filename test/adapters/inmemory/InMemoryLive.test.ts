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
import { store } from "./Store.ts"

organizationsSuite("Organizations in memory", store)
membersSuite("Members in memory", store)
apiKeysSuite("ApiKeys in memory", store)
blobsSuite("Blobs in memory", store)
customPromptsSuite("CustomPrompts in memory", store)
memoryStoreSuite("MemoryStore in memory", store)
eventLogSuite("EventLog in memory", store)
idempotentAnswersSuite("IdempotentAnswers in memory", store)
ledgerSuite("Ledger in memory", store)
usageEventsSuite("UsageEvents in memory", store)
workspaceFilesSuite("WorkspaceFiles in memory", store)
rateLimitsSuite("RateLimits in memory", store)
allowedToolsSuite("AllowedTools in memory", store)
sessionLlmsSuite("SessionLlms in memory", store)
sessionsSuite("Sessions in memory", store)
turnJournalSuite("TurnJournal in memory", store)
storeHealthSuite("StoreHealth in memory", store)
