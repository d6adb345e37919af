import { Effect, type PlatformError, Redacted, Stdio, Stream } from "effect"
import { Argument, Command, Prompt } from "effect/cli"
import { Accounts } from "../../application/identity/Accounts.ts"
import { ProviderKeyRing } from "../../application/identity/ProviderKeyRing.ts"
import { InvalidProviderKey } from "../../domain/identity/IdentityErrors.ts"
import { methodOf, type ProviderKey, ProviderName } from "../../domain/identity/ProviderKey.ts"
import { CommandFailed } from "./Failures.ts"
import type { Opened } from "./Options.ts"
import { print, table } from "./Output.ts"
import * as Parameters from "./Parameters.ts"

const provider = Parameters.argument("provider", ProviderName).pipe(
  Argument.withDescription("Whose key it is, such as openai or anthropic")
)

/** Far more than a key is: input without an end must not be read to its end. */
const mostBytes = 64 * 1024

/** The key: typed unseen, or the one line of standard input. Arguments would show it to everybody on the machine. */
const readKey = Effect.gen(function* () {
  const { stdin, stdinIsTerminal } = yield* Stdio.Stdio
  if (yield* stdinIsTerminal) {
    // Who leaves the question has stored nothing, and a script must see that.
    return yield* Effect.mapError(Prompt.Hidden({ message: "Key of the provider" }), () => new CommandFailed())
  }
  const input: Stream.Stream<Uint8Array, InvalidProviderKey | PlatformError.PlatformError> = stdin
  const bounded = Stream.limitBytes(input, mostBytes, () => Stream.fail(new InvalidProviderKey()))
  const text = yield* bounded.pipe(Stream.decodeText, Stream.mkString)
  return Redacted.make(text.replace(/\r?\n$/, ""))
})

const shown = ({ hint }: ProviderKey): string => (hint === "" ? "..." : `...${hint}`)

const toJson = (key: ProviderKey, org: string) => ({
  provider: key.provider,
  org,
  hint: key.hint,
  access_method: methodOf(key.provider) ?? null
})

const set = Command.make(
  "set",
  { provider, org: Parameters.org, json: Parameters.json },
  Effect.fnUntraced(function* ({ json, org, provider }) {
    const { id } = yield* (yield* Accounts).organization(org)
    const key = yield* (yield* ProviderKeyRing).set(id, provider, yield* readKey)
    const method = methodOf(provider)
    yield* print(
      json,
      toJson(key, org),
      `Stored the key ${shown(key)} of the provider ${provider} for organization ${org}. ` +
        (method === undefined ? "No access method uses it." : `The access method ${method} uses it.`)
    )
  })
).pipe(
  Command.withDescription("Store an organization's own key of a provider, in place of an earlier one"),
  Command.withExamples(({ commandPath }) => [
    { command: `${commandPath.join(" ")} openai --org acme`, description: "Asks for the key" },
    { command: `${commandPath.join(" ")} anthropic --org acme < key.txt`, description: "Reads it from a file" }
  ])
)

const list = Command.make(
  "list",
  { org: Parameters.org, json: Parameters.json },
  Effect.fnUntraced(function* ({ json, org }) {
    const { id } = yield* (yield* Accounts).organization(org)
    const keys = yield* (yield* ProviderKeyRing).list(id)
    const text = table(
      keys,
      [
        { header: "provider", cell: ({ provider }) => provider },
        { header: "key", cell: shown },
        { header: "access method", cell: ({ provider }) => methodOf(provider) ?? "-" }
      ],
      `Organization ${org} has stored no provider key.`
    )
    yield* print(
      json,
      keys.map((key) => toJson(key, org)),
      text
    )
  })
).pipe(
  Command.withDescription("List the provider keys that an organization has stored, by provider"),
  Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} --org acme` }])
)

const remove = Command.make(
  "remove",
  { provider, org: Parameters.org, json: Parameters.json },
  Effect.fnUntraced(function* ({ json, org, provider }) {
    const { id } = yield* (yield* Accounts).organization(org)
    const key = yield* (yield* ProviderKeyRing).remove(id, provider)
    yield* print(
      json,
      toJson(key, org),
      `Removed the key ${shown(key)} of the provider ${provider} from organization ${org}. ` +
        "Within 5 seconds nothing uses it."
    )
  })
).pipe(
  Command.withDescription("Remove an organization's own key of a provider"),
  Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} openai --org acme` }])
)

export const providerKeys = (stores: Opened<Accounts | ProviderKeyRing>) =>
  Command.make("provider-keys").pipe(
    Command.withDescription("Manage the provider keys that organizations bring themselves"),
    Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} set openai --org acme` }]),
    Command.withSubcommands([
      set.pipe(Command.provide(stores)),
      list.pipe(Command.provide(stores)),
      remove.pipe(Command.provide(stores))
    ])
  )
