import { Array, Context, Effect, Layer, Option } from "effect"
import { fromUsd } from "../../domain/shared/Money.ts"
import { Organizations } from "../ports/storage/Organizations.ts"
import { Accounts } from "./Accounts.ts"

/** The organization that a laptop works with. */
export const defaultOrganization = "default"

/** What the first start gives away, so that priced models can be tried at once. */
export const welcomeCredit = fromUsd(10)

/**
 * The first start of an embedded store: organization `default`, an owner, a key and credit. Gives the key's text then,
 * and never again.
 */
export class FirstStart extends Context.Service<
  FirstStart,
  {
    readonly run: Effect.Effect<Option.Option<string>>
  }
>()("gateway/identity/FirstStart") {
  static readonly layer = Layer.effect(
    FirstStart,
    Effect.gen(function* () {
      const organizations = yield* Organizations
      const accounts = yield* Accounts

      const run = Effect.gen(function* () {
        if (Array.isReadonlyArrayNonEmpty(yield* organizations.list)) return Option.none<string>()
        const { name: organization } = yield* accounts.createOrganization(defaultOrganization)
        yield* accounts.addMember({ organization, name: "owner", role: "owner" })
        yield* accounts.grantCredit({ organization, amount: welcomeCredit, note: "first start" })
        const { text } = yield* accounts.issueKey({ organization, name: "first start" })
        return Option.some(text)
      }).pipe(Effect.orDie, Effect.withSpan("FirstStart.run"))

      return FirstStart.of({ run })
    })
  )
}
