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
import { onPglite, shared, temporaryDirectory } from "./Stores.ts"

const store = shared(onPglite(await temporaryDirectory()))

organizationsSuite("Organizations on PGlite", store)
membersSuite("Members on PGlite", store)
apiKeysSuite("ApiKeys on PGlite", store)
blobsSuite("Blobs on PGlite", store)
customPromptsSuite("CustomPrompts on PGlite", store)
memoryStoreSuite("MemoryStore on PGlite", store)
eventLogSuite("EventLog on PGlite", store)
idempotentAnswersSuite("IdempotentAnswers on PGlite", store)
ledgerSuite("Ledger on PGlite", store)
rateLimitsSuite("RateLimits on PGlite", store)
usageEventsSuite("UsageEvents on PGlite", store)
workspaceFilesSuite("WorkspaceFiles on PGlite", store)
allowedToolsSuite("AllowedTools on PGlite", store)
sessionLlmsSuite("SessionLlms on PGlite", store)
sessionsSuite("Sessions on PGlite", store)
turnJournalSuite("TurnJournal on PGlite", store)
storeHealthSuite("StoreHealth on PGlite", store)
