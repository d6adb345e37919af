import { Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { Accounts } from "../../application/identity/Accounts.ts"
import { type Member, Role } from "../../domain/identity/Member.ts"
import { OrganizationName } from "../../domain/identity/Organization.ts"
import type { Opened } from "./Options.ts"
import { iso, minute, print, table } from "./Output.ts"
import * as Parameters from "./Parameters.ts"

const add = Command.make(
  "add",
  {
    name: Parameters.argument("name", OrganizationName).pipe(
      Argument.withDescription("Name of the member, unique in the organization: a-z, 0-9, - and _")
    ),
    org: Parameters.org,
    role: Flag.Literals("role", Role.literals).pipe(
      Flag.withDescription("Owners and admins see everybody's usage, members their own"),
      Flag.withDefault("member")
    ),
    json: Parameters.json
  },
  Effect.fnUntraced(function* ({ json, name, org, role }) {
    const { id } = yield* (yield* Accounts).addMember({ organization: org, name, role })
    yield* print(json, { id, name, role, org }, `Added ${name} to organization ${org} as ${role} (${id}).`)
  })
).pipe(
  Command.withDescription("Add a person or a machine to an organization"),
  Command.withExamples(({ commandPath }) => [
    { command: `${commandPath.join(" ")} ana --org acme --role owner` },
    { command: `${commandPath.join(" ")} build-bot --org acme` }
  ])
)

const list = Command.make(
  "list",
  { org: Parameters.org, json: Parameters.json },
  Effect.fnUntraced(function* ({ json, org }) {
    const members = yield* (yield* Accounts).members(org)
    const text = table<Member>(
      members,
      [
        { header: "name", cell: ({ name }) => name },
        { header: "role", cell: ({ role }) => role },
        { header: "id", cell: ({ id }) => id },
        { header: "created", cell: ({ createdAt }) => minute(createdAt) }
      ],
      `Organization ${org} has no member yet.`
    )
    const data = members.map(({ createdAt, id, name, role }) => ({ id, name, role, org, createdAt: iso(createdAt) }))
    yield* print(json, data, text)
  })
).pipe(
  Command.withDescription("List the members of an organization, oldest first"),
  Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} --org acme` }])
)

export const members = (stores: Opened<Accounts>) =>
  Command.make("members").pipe(
    Command.withDescription("Manage the members of an organization"),
    Command.withExamples(({ commandPath }) => [
      { command: `${commandPath.join(" ")} add ana --org acme --role owner` }
    ]),
    Command.withSubcommands([add.pipe(Command.provide(stores)), list.pipe(Command.provide(stores))])
  )
