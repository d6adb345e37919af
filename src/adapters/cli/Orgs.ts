import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { Accounts } from "../../application/identity/Accounts.ts"
import { type Organization, OrganizationName } from "../../domain/identity/Organization.ts"
import type { Opened } from "./Options.ts"
import { iso, minute, print, table } from "./Output.ts"
import * as Parameters from "./Parameters.ts"

const toJson = ({ createdAt, id, name }: Organization) => ({ id, name, createdAt: iso(createdAt) })

const create = Command.make(
  "create",
  {
    name: Parameters.argument("name", OrganizationName).pipe(
      Argument.withDescription("Name of the organization: a-z, 0-9, - and _")
    ),
    json: Parameters.json
  },
  Effect.fnUntraced(function* ({ json, name }) {
    const organization = yield* (yield* Accounts).createOrganization(name)
    yield* print(json, toJson(organization), `Created organization ${organization.name} (${organization.id}).`)
  })
).pipe(
  Command.withDescription("Create an organization: an account with credit, members and keys"),
  Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} acme` }])
)

const list = Command.make(
  "list",
  { json: Parameters.json },
  Effect.fnUntraced(function* ({ json }) {
    const organizations = yield* (yield* Accounts).organizations
    const text = table(
      organizations,
      [
        { header: "name", cell: ({ name }) => name },
        { header: "id", cell: ({ id }) => id },
        { header: "created", cell: ({ createdAt }) => minute(createdAt) }
      ],
      "There is no organization yet."
    )
    yield* print(json, organizations.map(toJson), text)
  })
).pipe(
  Command.withDescription("List the organizations, oldest first"),
  Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} --json` }])
)

export const orgs = (stores: Opened<Accounts>) =>
  Command.make("orgs").pipe(
    Command.withDescription("Manage organizations"),
    Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} create acme` }]),
    Command.withSubcommands([create.pipe(Command.provide(stores)), list.pipe(Command.provide(stores))])
  )
