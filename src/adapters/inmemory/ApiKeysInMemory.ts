import { Array, Clock, Effect, Layer, Option } from "effect"
import { ApiKeys } from "../../application/ports/storage/ApiKeys.ts"
import { ApiKey, Caller } from "../../domain/identity/ApiKey.ts"
import { oldestFirst } from "./Oldest.ts"
import { State } from "./State.ts"

export const layer = Layer.effect(
  ApiKeys,
  Effect.gen(function* () {
    const { members } = yield* State
    const byDigest = new Map<string, ApiKey>()

    return ApiKeys.of({
      insert: (key, digest) =>
        Effect.suspend(() => {
          if (!members.has(key.memberId)) return Effect.die(new Error(`no member ${key.memberId}`))
          if (byDigest.has(digest)) return Effect.die(new Error(`the digest of the key ${key.id} is taken`))
          byDigest.set(digest, key)
          return Effect.void
        }),
      findByDigest: (digest) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          const key = byDigest.get(digest)
          const holder = key && members.get(key.memberId)
          return key === undefined || holder === undefined
            ? Option.none()
            : Option.some({
                key,
                caller: new Caller({
                  organizationId: key.organizationId,
                  memberId: key.memberId,
                  role: holder.role,
                  keyId: key.id
                }),
                usableFor: key.usableFor(now)
              })
        }),
      list: (organization) =>
        Effect.sync(() =>
          oldestFirst(Array.filter(byDigest.values(), ({ organizationId }) => organizationId === organization))
        ),
      revoke: (id, at) =>
        Effect.sync(() =>
          Option.map(
            Array.findFirst(byDigest, ([, key]) => key.id === id),
            ([digest, key]) => {
              const revoked = new ApiKey({ ...key, revokedAt: key.revokedAt ?? at })
              byDigest.set(digest, revoked)
              return revoked
            }
          )
        )
    })
  })
)
