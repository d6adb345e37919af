import { Clock, Duration, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { Accounts } from "../../application/identity/Accounts.ts"
import { ApiKey } from "../../domain/identity/ApiKey.ts"
import { ApiKeyId } from "../../domain/shared/Ids.ts"
import type { Opened } from "./Options.ts"
import { iso, isoOrNull, minute, print, table } from "./Output.ts"
import * as Parameters from "./Parameters.ts"

/** Without `--member` a key is the first owner's. */
class NoOwner extends Schema.TaggedError<NoOwner>()("NoOwner", { org: Schema.String }) {
  override get message() {
    return (
      `Organization ${this.org} has no owner whose key it could be. Name another member with --member, or add ` +
      `an owner: members add <name> --org ${this.org} --role owner`
    )
  }
}

const hours = { h: 1, d: 24, w: 7 * 24 }

const expected = "a number of hours, days or weeks, such as 12h, 30d or 8w"

const Lifetime = Schema.String.check(Schema.isPattern(/^[1-9]\d{0,3}[hdw]$/, { expected })).pipe(
  Schema.decodeTo(Schema.TemplateLiteralParser([Schema.Int, Schema.Literals(["h", "d", "w"])]))
)

const KeyName = ApiKey.fields.name.check(Schema.isPattern(/^\P{Cc}*$/u, { expected: "no control characters" }))

const create = Command.make(
  "create",
  {
    org: Parameters.org,
    member: Flag.String("member").pipe(
      Flag.withDescription("Name of the member whose key it is, the organization's first owner if not given"),
      Flag.withMetavar("name"),
      Flag.optional
    ),
    name: Parameters.flag("name", KeyName).pipe(
      Flag.withDescription("What to call the key, such as the machine that uses it"),
      Flag.withDefault("command line")
    ),
    expires: Parameters.flag("expires", Lifetime).pipe(
      Flag.map(([count, unit]) => Duration.hours(count * hours[unit])),
      Flag.withDescription("Lifetime, such as 12h, 30d or 8w; for ever if not given"),
      Flag.withMetavar("lifetime"),
      Flag.optional
    ),
    json: Parameters.json
  },
  Effect.fnUntraced(function* ({ expires, json, member, name, org }) {
    const now = yield* Clock.currentTimeMillis
    const request = {
      organization: org,
      name,
      ...(Option.isSome(member) && { member: member.value }),
      ...(Option.isSome(expires) && { expiresAt: now + Duration.toMillis(expires.value) })
    }
    const {
      key,
      member: holder,
      text
    } = yield* Effect.catchTag((yield* Accounts).issueKey(request), "UnknownName", (error) =>
      Effect.fail(error.kind === "member" && Option.isNone(member) ? new NoOwner({ org }) : error)
    )
    yield* print(
      json,
      { id: key.id, key: text, name: key.name, org, member: holder.name, expiresAt: isoOrNull(key.expiresAt) },
      [
        text,
        "",
        `Key "${key.name}" of ${holder.name} in organization ${org}, ` +
          (key.expiresAt === null ? "valid until it is revoked." : `valid until ${minute(key.expiresAt)}.`),
        "It is shown once: store it now."
      ].join("\n")
    )
  })
).pipe(
  Command.withDescription("Create an API key and print it, once"),
  Command.withExamples(({ commandPath }) => [
    { command: commandPath.join(" "), description: "A key of the first owner of organization default" },
    { command: `${commandPath.join(" ")} --org acme --member ana --name laptop --expires 30d` }
  ])
)

const state = (key: ApiKey, now: number): string =>
  key.isUsableAt(now) ? "active" : key.revokedAt === null ? "expired" : "revoked"

const list = Command.make(
  "list",
  { org: Parameters.org, json: Parameters.json },
  Effect.fnUntraced(function* ({ json, org }) {
    const accounts = yield* Accounts
    const now = yield* Clock.currentTimeMillis
    const members = new Map((yield* accounts.members(org)).map(({ id, name }) => [id, name]))
    const rows = (yield* accounts.keys(org)).map((key) => ({ key, member: members.get(key.memberId) ?? key.memberId }))
    const text = table(
      rows,
      [
        { header: "id", cell: ({ key }) => key.id },
        { header: "name", cell: ({ key }) => key.name },
        { header: "member", cell: ({ member }) => member },
        { header: "key", cell: ({ key }) => `${key.hint}...` },
        { header: "state", cell: ({ key }) => state(key, now) },
        { header: "created", cell: ({ key }) => minute(key.createdAt) },
        { header: "expires", cell: ({ key }) => (key.expiresAt === null ? "never" : minute(key.expiresAt)) }
      ],
      `Organization ${org} has no API key yet.`
    )
    const data = rows.map(({ key, member }) => ({
      id: key.id,
      name: key.name,
      org,
      member,
      hint: key.hint,
      state: state(key, now),
      createdAt: iso(key.createdAt),
      expiresAt: isoOrNull(key.expiresAt),
      revokedAt: isoOrNull(key.revokedAt)
    }))
    yield* print(json, data, text)
  })
).pipe(
  Command.withDescription("List the API keys of an organization, oldest first"),
  Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} --org acme` }])
)

const revoke = Command.make(
  "revoke",
  {
    id: Parameters.argument("id", ApiKeyId).pipe(Argument.withDescription("Id of the key, as `keys list` shows it")),
    json: Parameters.json
  },
  Effect.fnUntraced(function* ({ id, json }) {
    const key = yield* (yield* Accounts).revokeKey(id)
    yield* print(
      json,
      { id: key.id, name: key.name, revokedAt: isoOrNull(key.revokedAt) },
      `Revoked key "${key.name}" (${key.hint}...). Within 5 seconds nobody can use it.`
    )
  })
).pipe(
  Command.withDescription("Revoke an API key for good"),
  Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} <id>` }])
)

export const keys = (stores: Opened<Accounts>) =>
  Command.make("keys").pipe(
    Command.withDescription("Manage API keys"),
    Command.withExamples(({ commandPath }) => [
      { command: `${commandPath.join(" ")} create --name laptop --expires 30d` }
    ]),
    Command.withSubcommands([
      create.pipe(Command.provide(stores)),
      list.pipe(Command.provide(stores)),
      revoke.pipe(Command.provide(stores))
    ])
  )
