import { Duration, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { StoreHealth } from "../../application/ports/storage/StoreHealth.ts"

export const layer = Layer.effect(
  StoreHealth,
  Effect.map(SqlClient.SqlClient, (sql) =>
    StoreHealth.of({
      // A statement on a server that hangs takes seconds to cancel: nobody waits for that.
      isReachable: Effect.flatMap(Effect.forkDetach(sql`SELECT 1`), (probe) =>
        Fiber.join(probe).pipe(
          Effect.timeout(Duration.seconds(2)),
          Effect.match({ onFailure: () => false, onSuccess: () => true }),
          Effect.ensuring(Effect.sync(() => probe.interruptUnsafe()))
        )
      )
    })
  )
)
