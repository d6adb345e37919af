import { Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { Accounts } from "../../application/identity/Accounts.ts"
import { nanoUsd, toUsd } from "../../domain/shared/Money.ts"
import type { Opened } from "./Options.ts"
import { print } from "./Output.ts"
import * as Parameters from "./Parameters.ts"
import { toDecimal, Usd } from "./Usd.ts"

const grant = Command.make(
  "grant",
  {
    amount: Parameters.argument("usd", Usd).pipe(
      Argument.withDescription("Amount in USD, such as 25 or 0.5: above 0, at most 1000000, at most 9 decimals")
    ),
    org: Parameters.org,
    note: Flag.String("note").pipe(
      Flag.withDescription("Where the credit comes from; kept in the ledger"),
      Flag.withMetavar("text"),
      Flag.withDefault("command line")
    ),
    json: Parameters.json
  },
  Effect.fnUntraced(function* ({ amount, json, note, org }) {
    const balance = yield* (yield* Accounts).grantCredit({ organization: org, amount, note })
    yield* print(
      json,
      { org, balance_usd: toUsd(balance) },
      `Granted ${toDecimal(amount)} USD to organization ${org}. Balance: ${toDecimal(balance)} USD.`
    )
  })
).pipe(
  Command.withDescription("Add credit to an organization"),
  Command.withExamples(({ commandPath }) => [
    { command: `${commandPath.join(" ")} 25` },
    { command: `${commandPath.join(" ")} 100 --org acme --note "invoice 17"` }
  ])
)

const balance = Command.make(
  "balance",
  { org: Parameters.org, json: Parameters.json },
  Effect.fnUntraced(function* ({ json, org }) {
    const { balance, held } = yield* (yield* Accounts).credit(org)
    const available = nanoUsd(balance - held)
    yield* print(
      json,
      { org, balance_usd: toUsd(balance), held_usd: toUsd(held), available_usd: toUsd(available) },
      `Organization ${org} has ${toDecimal(balance)} USD: ${toDecimal(available)} USD are available, ` +
        `${toDecimal(held)} USD are held by running requests.`
    )
  })
).pipe(
  Command.withDescription("Show the credit of an organization"),
  Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} --org acme` }])
)

export const credits = (stores: Opened<Accounts>) =>
  Command.make("credits").pipe(
    Command.withDescription("Grant and show credit"),
    Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} grant 25 --org acme` }]),
    Command.withSubcommands([grant.pipe(Command.provide(stores)), balance.pipe(Command.provide(stores))])
  )
