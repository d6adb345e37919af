import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { StoreHealth } from "../../application/ports/storage/StoreHealth.ts"

export const layer = Layer.effect(
  StoreHealth,
  Effect.map(SqlClient.SqlClient, (sql) =>
    StoreHealth.of({
      isReachable: sql`SELECT 1`.pipe(
        Effect.timeout(Duration.seconds(2)),
        Effect.match({ onFailure: () => false, onSuccess: () => true })
      )
    }))
)
