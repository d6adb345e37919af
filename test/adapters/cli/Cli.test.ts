import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Console, Context, Effect, Exit, Layer, Option, Redacted, Runtime, Schema, Stdio, Stream } from "effect"
import type { Command } from "effect/cli"
import { TestClock, TestConsole } from "effect/testing"
import * as Cli from "../../../src/adapters/cli/Cli.ts"
import type { Options } from "../../../src/adapters/cli/Options.ts"
import * as IdsLive from "../../../src/adapters/crypto/IdsLive.ts"
import * as KeyTextsLive from "../../../src/adapters/crypto/KeyTextsLive.ts"
import * as InMemoryLive from "../../../src/adapters/inmemory/InMemoryLive.ts"
import { Accounts } from "../../../src/application/identity/Accounts.ts"
import { ProviderKeyRing } from "../../../src/application/identity/ProviderKeyRing.ts"
import { Ledger } from "../../../src/application/ports/storage/Ledger.ts"
import { StoreUnavailable } from "../../../src/application/ports/storage/StoreUnavailable.ts"
import { ModelCatalog } from "../../../src/application/ports/vendor/ModelCatalog.ts"
import type { Model } from "../../../src/domain/catalog/Model.ts"
import { free, type Pricing, rateFromUsd } from "../../../src/domain/catalog/Pricing.ts"
import { ProviderName } from "../../../src/domain/identity/ProviderKey.ts"
import { ModelId } from "../../../src/domain/shared/Ids.ts"
import { holdRequest, settlement } from "../../conformance/Samples.ts"

class Broken extends Schema.TaggedError<Broken>()("Broken", { message: Schema.String }) {}

const model = (id: string, pricing: Pricing | null): Model => ({
  id: ModelId.make(id),
  name: id,
  created: 0,
  accessMethods: ["service"],
  input: ["text"],
  output: ["text"],
  maxInputTokens: 1_000_000,
  maxOutputTokens: 64_000,
  reasoning: true,
  supportsToolCall: true,
  pricing
})

const tiered: Pricing = {
  input: rateFromUsd(1.25),
  output: rateFromUsd(10),
  cacheRead: rateFromUsd(0.125),
  cacheWrite: null,
  reasoning: null,
  longContext: {
    inputTokensAbove: 200_000,
    input: rateFromUsd(2.5),
    output: rateFromUsd(15),
    cacheRead: rateFromUsd(0.25),
    cacheWrite: null
  }
}

const models = Layer.succeed(ModelCatalog, {
  entries: [
    ...[model("echo", free), model("tiered", tiered), model("unpriced", null)].map((model) => ({
      model,
      routes: [{ method: "service", upstream: "fake", upstreamModel: model.id } as const]
    })),
    {
      model: model("with-own-keys-only", free),
      routes: [{ method: "vendor-b-api-key", upstream: "fake", upstreamModel: "own" }]
    }
  ],
  find: () => Option.none()
})

/** Whatever a command line without work to do must not touch. */
const untouched: Options = {
  serve: Effect.die("served"),
  migrate: Effect.die("migrated"),
  stores: Layer.effectContext(Effect.die("opened the stores")),
  models: Layer.effectContext(Effect.die("opened the models")),
  gateway: Effect.die("talked"),
  checks: Effect.die("checked")
}

const stdio = (input: string, args: ReadonlyArray<string>) =>
  Stdio.layerTest({
    args: Effect.succeed(args),
    stdin: Stream.fromArray([...new TextEncoder().encode(input)].map((byte) => Uint8Array.of(byte)))
  })

/** Runs a command as `main.ts` does, with something on standard input, and tells how the process would end. */
const runWith = Effect.fnUntraced(function* (input: string, options: Partial<Options>, ...args: ReadonlyArray<string>) {
  const console = yield* TestConsole.make
  const exit = yield* Cli.run({ ...untouched, ...options }).pipe(
    Effect.provideService(Console.Console, console),
    Effect.provide(Layer.merge(NodeServices.layer, stdio(input, args))),
    Effect.exit
  )
  const failure = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
  return {
    code: failure === undefined ? 0 : Runtime.getErrorExitCode(failure),
    stdout: (yield* console.logLines).join("\n"),
    stderr: (yield* console.errorLines).join("\n"),
    /** True: the runtime has something left to say. */
    unreported: failure !== undefined && Runtime.getErrorReported(failure)
  }
})

const run = (options: Partial<Options>, ...args: ReadonlyArray<string>) => runWith("", options, ...args)

/** A command line on a store of its own. */
const commandLine = Effect.gen(function* () {
  const context = yield* Layer.build(
    Layer.merge(Accounts.layer, ProviderKeyRing.layer).pipe(
      Layer.provideMerge(InMemoryLive.layer),
      Layer.provide(Layer.mergeAll(IdsLive.layer.pipe(Layer.provide(NodeCrypto.layer)), KeyTextsLive.layer))
    )
  )
  const typed = (...args: ReadonlyArray<string>) => run({ stores: Layer.succeedContext(context), models }, ...args)
  const fed = (input: string, ...args: ReadonlyArray<string>) =>
    runWith(input, { stores: Layer.succeedContext(context) }, ...args)
  const json = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
    const ended = yield* typed(...args, "--json")
    assert.strictEqual(ended.stderr, "")
    assert.notInclude(ended.stdout, "\n")
    return JSON.parse(ended.stdout)
  })
  return { context, typed, fed, json }
})

/** The words of every command there is. */
const pathsOf = (command: Command.Command.Any): ReadonlyArray<ReadonlyArray<string>> => [
  [command.name],
  ...command.subcommands.flatMap(({ commands }) =>
    commands.flatMap((child) => pathsOf(child).map((words) => [command.name, ...words]))
  )
]

/** A failure: one line on stderr, nothing on stdout, exit code 1. */
const refusal = (ended: Effect.Success<ReturnType<typeof run>>) => {
  const { stderr, ...rest } = ended
  assert.deepStrictEqual(rest, { code: 1, stdout: "", unreported: false })
  assert.notInclude(stderr, "\n")
  return stderr
}

describe("the command line", () => {
  for (const words of pathsOf(Cli.make(untouched))) {
    it.effect(`explains \`${words.join(" ")}\`, with an example, and opens nothing for it`, () =>
      Effect.gen(function* () {
        const { stdout, ...rest } = yield* run({}, ...words.slice(1), "--help")
        assert.deepStrictEqual(rest, { code: 0, stderr: "", unreported: false })
        assert.match(stdout, /^DESCRIPTION\n {2}\S/u)
        assert.include(stdout, `USAGE\n  ${words.join(" ")} `)
        assert.match(stdout, /\nEXAMPLES\n/u)
      })
    )
  }

  it.effect("explains a group of commands that is named alone, and opens nothing for it", () =>
    Effect.gen(function* () {
      for (const group of ["orgs", "members", "keys", "provider-keys", "credits"]) {
        const { stdout, ...rest } = yield* run({}, group)
        assert.deepStrictEqual(rest, { code: 0, stderr: "", unreported: false })
        assert.include(stdout, "SUBCOMMANDS")
      }
    })
  )

  it.effect("tells its version", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* run({}, "--version")).stdout, "1.0.0")
    })
  )

  it.effect("serves with the command `serve` and without any", () =>
    Effect.gen(function* () {
      const serve = Console.log("serving")
      assert.strictEqual((yield* run({ serve })).stdout, "serving")
      assert.strictEqual((yield* run({ serve }, "serve")).stdout, "serving")
    })
  )

  it.effect("tells a wrong command or flag after the help of what was meant, all on stderr", () =>
    Effect.gen(function* () {
      const mistakes = [
        [["orgz"], 'Unknown subcommand "orgz"'],
        [["orgs", "create"], "Missing required argument: name"],
        [["orgs", "create", "a", "b"], 'Unexpected positional argument: "b"'],
        [["orgs", "list", "--jason"], "Unrecognized flag: --jason"]
      ] as const
      for (const [args, mistake] of mistakes) {
        const { stderr, ...rest } = yield* run({}, ...args)
        assert.deepStrictEqual(rest, { code: 1, stdout: "", unreported: false })
        assert.match(stderr, /^DESCRIPTION\n/u)
        assert.include(stderr, mistake)
      }
    })
  )

  it.effect("tells a bad value in one line that says what is allowed, before it opens anything", () =>
    Effect.gen(function* () {
      const name = "Expected 1 to 63 of a-z, 0-9, - and _, starting with a letter or a digit"
      const lifetime = "Expected a number of hours, days or weeks, such as 12h, 30d or 8w"
      const usd = "Expected an amount in USD above 0 and at most 1000000, with at most 9 decimals"
      const mistakes = [
        [["orgs", "create", "Acme!"], name],
        [["orgs", "create", "a".repeat(64)], name],
        [["members", "add", "a b"], name],
        [["members", "add", "ana", "--role", "boss"], 'Expected: "owner" | "admin" | "member"'],
        [["keys", "create", "--expires", "30"], lifetime],
        [["keys", "create", "--expires", "0d"], lifetime],
        [["keys", "create", "--expires", "1.5d"], lifetime],
        [["keys", "create", "--name", ""], "Expected a value with a length between 1 and 100"],
        [["keys", "create", "--name", "x".repeat(101)], "Expected a value with a length between 1 and 100"],
        [["keys", "create", "--name", "two\nlines"], "Expected no control characters"],
        [["keys", "revoke", ""], "Expected a value with a length of at least 1"],
        ...["0", "0.000", "-5", "1000000.000000001", "2000000", "0.1234567891", "1e3", ".5", "5.", "five", ""].map(
          (amount) => [["credits", "grant", amount], usd] as const
        ),
        [["provider-keys", "set", "Open AI"], "Expected 1 to 63 of a-z, 0-9 and -, starting with a letter"],
        [["usage", "--days", "0"], "Expected a value between 1 and 3650"],
        [["usage", "--days", "1.5"], "Expected an integer"],
        [["usage", "--days", "week"], "Expected an integer"]
      ] as const
      for (const [args, allowed] of mistakes) {
        const line = refusal(yield* run({}, ...args, "--json"))
        assert.isTrue(line.endsWith(`. ${allowed}`), line)
      }
    })
  )

  it.effect("tells what stops it in one line, a store that is away with its cause, and a bug in full", () =>
    Effect.gen(function* () {
      const serve = Effect.fail(new Broken({ message: "PORT: expected a port\n  from 0 to 65535" }))
      assert.strictEqual(refusal(yield* run({ serve })), "PORT: expected a port from 0 to 65535")

      const cause = new Error("connection failed", { cause: new Error("connect ECONNREFUSED 127.0.0.1:5432") })
      const stores = Layer.effectContext(Effect.die(new StoreUnavailable({ cause })))
      assert.strictEqual(
        refusal(yield* run({ stores }, "orgs", "list")),
        "The store cannot be reached. (connect ECONNREFUSED 127.0.0.1:5432)"
      )

      const bug = yield* run({ serve: Effect.die(new TypeError("a bug")) })
      assert.deepInclude(bug, { code: 1, stdout: "", unreported: false })
      assert.match(bug.stderr, /a bug\n +at /u)
    })
  )

  it.effect("keeps what a command logs out of its result", () =>
    Effect.gen(function* () {
      const migrate = Effect.as(Effect.logWarning("slow"), [[1, "identity"]] as const)
      const { stderr, stdout } = yield* run({ migrate }, "migrate", "--json")
      assert.strictEqual(stdout, '{"ran":["0001_identity"]}')
      assert.include(stderr, "slow")
    })
  )
})

describe("migrate", () => {
  it.effect("tells what ran", () =>
    Effect.gen(function* () {
      const migrate = Effect.succeed([
        [1, "identity"],
        [12, "billing"]
      ] as const)
      assert.strictEqual((yield* run({ migrate }, "migrate")).stdout, "Ran 0001_identity\nRan 0012_billing")
      assert.strictEqual((yield* run({ migrate: Effect.succeed([]) }, "migrate")).stdout, "The schema is up to date.")
    })
  )
})

describe("orgs and members", () => {
  it.effect("are made once and listed", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 0, 2, 3, 4, 5, 6))
      const { json, typed } = yield* commandLine
      assert.strictEqual((yield* typed("orgs", "list")).stdout, "There is no organization yet.")
      const acme = yield* json("orgs", "create", "acme")
      assert.deepStrictEqual(acme, { id: acme.id, name: "acme", createdAt: "2026-01-02T03:04:05.006Z" })
      assert.deepStrictEqual(yield* json("orgs", "list"), [acme])
      assert.strictEqual(
        refusal(yield* typed("orgs", "create", "acme", "--json")),
        'There is already an organization named "acme".'
      )

      const ana = yield* json("members", "add", "ana", "--org", "acme", "--role", "owner")
      assert.deepStrictEqual(ana, { id: ana.id, name: "ana", role: "owner", org: "acme" })
      yield* TestClock.adjust("1 milli")
      const bot = yield* json("members", "add", "build-bot", "--org", "acme")
      assert.deepStrictEqual(bot, { id: bot.id, name: "build-bot", role: "member", org: "acme" })
      assert.strictEqual(
        (yield* typed("members", "list", "--org", "acme")).stdout,
        [
          `NAME       ROLE    ${"ID".padEnd(bot.id.length)}  CREATED`,
          `ana        owner   ${ana.id}  2026-01-02 03:04 UTC`,
          `build-bot  member  ${bot.id}  2026-01-02 03:04 UTC`
        ].join("\n")
      )
      assert.strictEqual(
        refusal(yield* typed("members", "add", "ana", "--org", "acme")),
        'There is already a member named "ana".'
      )
      assert.strictEqual(
        refusal(yield* typed("members", "add", "ana", "--org", "nobody")),
        'No organization is named "nobody".'
      )
    })
  )

  it.effect("without --org are those of the organization `default`", () =>
    Effect.gen(function* () {
      const { json, typed } = yield* commandLine
      for (const command of [
        ["members", "list"],
        ["keys", "list"],
        ["provider-keys", "list"],
        ["credits", "balance"],
        ["usage"]
      ]) {
        assert.strictEqual(refusal(yield* typed(...command)), 'No organization is named "default".')
      }
      yield* json("orgs", "create", "default")
      assert.strictEqual((yield* json("credits", "balance")).org, "default")
    })
  )
})

describe("keys", () => {
  it.effect("are shown once, with a line that says so", () =>
    Effect.gen(function* () {
      const { json, typed } = yield* commandLine
      yield* json("orgs", "create", "default")
      yield* json("members", "add", "ana", "--role", "owner")
      const { stdout } = yield* typed("keys", "create", "--name", "laptop")
      assert.match(
        stdout,
        /^sk-gw-[0-9A-Za-z]{49}\n\nKey "laptop" of ana in organization default, valid until it is revoked\.\nIt is shown once/u
      )
      assert.lengthOf(stdout.split("sk-gw-"), 2)
    })
  )

  it.effect("belong to the member that is named, or to the first owner", () =>
    Effect.gen(function* () {
      const { json, typed } = yield* commandLine
      yield* json("orgs", "create", "acme")
      yield* json("members", "add", "bot", "--org", "acme")
      assert.match(
        refusal(yield* typed("keys", "create", "--org", "acme")),
        /^Organization acme has no owner .+: members add <name> --org acme --role owner$/u
      )
      yield* json("members", "add", "ana", "--org", "acme", "--role", "owner")
      assert.strictEqual((yield* json("keys", "create", "--org", "acme")).member, "ana")
      assert.strictEqual((yield* json("keys", "create", "--org", "acme", "--member", "bot")).member, "bot")
      assert.strictEqual(
        refusal(yield* typed("keys", "create", "--org", "acme", "--member", "zoe")),
        'No member is named "zoe".'
      )
    })
  )

  it.effect("expire after their lifetime and are revoked for good", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 0, 1))
      const { json, typed } = yield* commandLine
      yield* json("orgs", "create", "default")
      yield* json("members", "add", "ana", "--role", "owner")
      const key = yield* json("keys", "create", "--name", "a day", "--expires", "1d")
      assert.deepStrictEqual(key, {
        id: key.id,
        key: key.key,
        name: "a day",
        org: "default",
        member: "ana",
        expiresAt: "2026-01-02T00:00:00.000Z"
      })
      const halfDay = yield* json("keys", "create", "--name", "half a day", "--expires", "12h")
      assert.strictEqual(halfDay.expiresAt, "2026-01-01T12:00:00.000Z")
      const fortnight = yield* json("keys", "create", "--name", "a fortnight", "--expires", "2w")
      assert.strictEqual(fortnight.expiresAt, "2026-01-15T00:00:00.000Z")
      const eternal = yield* json("keys", "create")
      assert.isNull(eternal.expiresAt)

      const states = Effect.map(
        json("keys", "list"),
        (keys: ReadonlyArray<{ readonly name: string; readonly state: string }>) =>
          Object.fromEntries(keys.map(({ name, state }) => [name, state]))
      )
      const alive = { "a day": "active", "half a day": "active", "a fortnight": "active", "command line": "active" }
      assert.deepStrictEqual(yield* states, alive)
      yield* TestClock.adjust("1 day")
      const aDayLater = { ...alive, "a day": "expired", "half a day": "expired" }
      assert.deepStrictEqual(yield* states, aDayLater)
      assert.deepStrictEqual(yield* json("keys", "revoke", eternal.id), {
        id: eternal.id,
        name: "command line",
        revokedAt: "2026-01-02T00:00:00.000Z"
      })
      assert.deepStrictEqual(yield* states, { ...aDayLater, "command line": "revoked" })
      assert.notInclude((yield* typed("keys", "list", "--json")).stdout, key.key)
      assert.strictEqual(refusal(yield* typed("keys", "revoke", "nonsense")), 'No API key has the id "nonsense".')
    })
  )
})

describe("provider-keys", () => {
  const key = "sk-ant-0123456789-abcd"

  it.effect("are read from standard input, and never shown", () =>
    Effect.gen(function* () {
      const { context, fed, json, typed } = yield* commandLine
      yield* json("orgs", "create", "acme")
      assert.strictEqual(
        (yield* typed("provider-keys", "list", "--org", "acme")).stdout,
        "Organization acme has stored no provider key."
      )
      const set = yield* fed(`${key}\r\n`, "provider-keys", "set", "openai", "--org", "acme")
      assert.deepStrictEqual(set, {
        code: 0,
        stdout:
          "Stored the key ...abcd of the provider openai for organization acme. " +
          "The access method vendor-b-api-key uses it.",
        stderr: "",
        unreported: false
      })
      yield* fed("short", "provider-keys", "set", "groq", "--org", "acme")
      assert.deepStrictEqual(yield* json("provider-keys", "list", "--org", "acme"), [
        { provider: "groq", org: "acme", hint: "", access_method: null },
        { provider: "openai", org: "acme", hint: "abcd", access_method: "vendor-b-api-key" }
      ])
      assert.strictEqual(
        (yield* typed("provider-keys", "list", "--org", "acme")).stdout,
        ["PROVIDER  KEY      ACCESS METHOD", "groq      ...      -", "openai    ...abcd  vendor-b-api-key"].join("\n")
      )
      const { id } = yield* Context.get(context, Accounts).organization("acme")
      const found = yield* Context.get(context, ProviderKeyRing).find(id, ProviderName.make("openai"))
      assert.deepStrictEqual(Option.map(found, Redacted.value), Option.some(key))
    })
  )

  it.effect("are removed once", () =>
    Effect.gen(function* () {
      const { fed, json, typed } = yield* commandLine
      yield* json("orgs", "create", "acme")
      yield* fed(key, "provider-keys", "set", "openai", "--org", "acme")
      assert.strictEqual(
        (yield* typed("provider-keys", "remove", "openai", "--org", "acme")).stdout,
        "Removed the key ...abcd of the provider openai from organization acme. Within 5 seconds nothing uses it."
      )
      assert.deepStrictEqual(yield* json("provider-keys", "list", "--org", "acme"), [])
      assert.strictEqual(
        refusal(yield* typed("provider-keys", "remove", "openai", "--org", "acme")),
        'The organization has stored no key of the provider "openai".'
      )
    })
  )

  it.effect("are refused when they cannot be keys, in a line that does not show them", () =>
    Effect.gen(function* () {
      const { fed, json } = yield* commandLine
      yield* json("orgs", "create", "acme")
      for (const text of [
        "",
        "\n",
        "two words",
        "two\nlines",
        "ключ",
        "nul\u0000",
        "x".repeat(4097),
        "x".repeat(70_000)
      ]) {
        assert.strictEqual(
          refusal(yield* fed(text, "provider-keys", "set", "openai", "--org", "acme")),
          "A provider's key has 1 to 4096 visible ASCII characters and no spaces."
        )
      }
      const longest = yield* fed("x".repeat(4096), "provider-keys", "set", "openai", "--org", "acme")
      assert.strictEqual(longest.code, 0)
    })
  )
})

describe("a table", () => {
  it.effect("keeps its lines, and the terminal its state, whatever a name holds", () =>
    Effect.gen(function* () {
      const { context, json, typed } = yield* commandLine
      yield* json("orgs", "create", "default")
      yield* json("members", "add", "ana", "--role", "owner")
      yield* Context.get(context, Accounts).issueKey({ organization: "default", name: "two\nlines\u001B[2J\u009B2J" })
      const { stdout } = yield* typed("keys", "list")
      assert.lengthOf(stdout.split("\n"), 2)
      assert.notInclude(stdout, "\u001B")
      assert.notInclude(stdout, "\u009B")
    })
  )
})

describe("credits and usage", () => {
  it.effect("are exact to the nano-USD", () =>
    Effect.gen(function* () {
      const { json, typed } = yield* commandLine
      yield* json("orgs", "create", "acme")
      assert.deepStrictEqual(yield* json("credits", "grant", "0.1", "--org", "acme"), { org: "acme", balance_usd: 0.1 })
      assert.deepStrictEqual(yield* json("credits", "grant", "0.200000001", "--org", "acme", "--note", "gift"), {
        org: "acme",
        balance_usd: 0.300000001
      })
      assert.strictEqual(
        (yield* typed("credits", "grant", "1000000", "--org", "acme")).stdout,
        "Granted 1000000.00 USD to organization acme. Balance: 1000000.300000001 USD."
      )
    })
  )

  it.effect("show what is held, and what was spent by whole UTC days", () =>
    Effect.gen(function* () {
      const { context, json, typed } = yield* commandLine
      yield* TestClock.setTime(Date.UTC(2026, 0, 1, 23, 59))
      const { id } = yield* json("orgs", "create", "acme")
      yield* json("credits", "grant", "1", "--org", "acme")
      const ledger = Context.get(context, Ledger)
      const spend = Effect.fnUntraced(function* (model: string, cost: bigint) {
        const request = holdRequest(id, cost, { model })
        yield* ledger.hold(request)
        yield* ledger.settle(settlement(request.id, cost, { input: 1_000, output: 50 }))
      })
      yield* spend("gpt", 2_500_000n)
      yield* TestClock.setTime(Date.UTC(2026, 0, 2, 12))
      yield* spend("gpt", 1_500_000n)
      yield* spend("gpt", 1_500_000n)
      yield* spend("claude-opus", 125_000_000n)
      yield* ledger.hold(holdRequest(id, 400_000_000n))

      assert.deepStrictEqual(yield* json("credits", "balance", "--org", "acme"), {
        org: "acme",
        balance_usd: 0.8695,
        held_usd: 0.4,
        available_usd: 0.4695
      })
      assert.deepStrictEqual(yield* json("usage", "--org", "acme", "--days", "1"), {
        org: "acme",
        since: "2026-01-02T00:00:00.000Z",
        total_cost_usd: 0.128,
        usage: [
          {
            day: "2026-01-02",
            model: "claude-opus",
            usage_events: 1,
            input_tokens: 1_000,
            output_tokens: 50,
            cost_usd: 0.125
          },
          { day: "2026-01-02", model: "gpt", usage_events: 2, input_tokens: 2_000, output_tokens: 100, cost_usd: 0.003 }
        ]
      })
      assert.strictEqual(
        (yield* typed("usage", "--org", "acme", "--days", "2")).stdout,
        [
          "DAY         MODEL        REQUESTS  INPUT TOKENS  OUTPUT TOKENS  COST (USD)",
          "2026-01-02  claude-opus         1          1000             50       0.125",
          "2026-01-02  gpt                 2          2000            100       0.003",
          "2026-01-01  gpt                 1          1000             50      0.0025",
          "",
          "Organization acme spent 0.1305 USD since 2026-01-01 (UTC)."
        ].join("\n")
      )
    })
  )
})

describe("models", () => {
  it.effect("are listed with their prices per million, without a store", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        (yield* run({ models }, "models")).stdout,
        [
          "MODEL     ACCESS METHODS  MAX INPUT  MAX OUTPUT  INPUT  OUTPUT  CACHE READ  CACHE WRITE  LONG CONTEXT",
          "echo      service           1000000       64000      0       0           0            0",
          "tiered    service           1000000       64000   1.25      10       0.125         1.25  2.5 in, 15 out above 200000",
          "unpriced  service           1000000       64000      -       -           -            -",
          "",
          "Prices in USD per million tokens."
        ].join("\n")
      )
      const [, priced, unpriced] = JSON.parse((yield* run({ models }, "models", "--json")).stdout)
      assert.deepStrictEqual(priced, {
        id: "tiered",
        name: "tiered",
        access_methods: ["service"],
        capabilities: {
          input: ["text"],
          output: ["text"],
          maxInputTokens: 1_000_000,
          maxOutputTokens: 64_000,
          reasoning: true,
          supportsToolCall: true
        },
        pricing: {
          inputPerM: 1.25,
          outputPerM: 10,
          cacheReadPerM: 0.125,
          cacheWritePerM: null,
          reasoningPerM: null,
          contextOver200kPerM: {
            inputTokensAbove: 200_000,
            inputPerM: 2.5,
            outputPerM: 15,
            cacheReadPerM: 0.25,
            cacheWritePerM: null
          }
        }
      })
      assert.isNull(unpriced.pricing)
    })
  )
})

describe("doctor", () => {
  const healthy = { name: "configuration", run: Effect.succeed("every variable is valid") }

  it.effect("tells what is well", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* run({ checks: Effect.succeed([healthy]) }, "doctor"), {
        code: 0,
        stdout: "ok configuration: every variable is valid",
        stderr: "",
        unreported: false
      })
    })
  )

  it.effect("looks at everything, tells a line of each and fails if anything failed, be it by a bug", () =>
    Effect.gen(function* () {
      const checks = Effect.succeed([
        { name: "upstream", run: Effect.fail(new Broken({ message: "401:\n the key is wrong" })) },
        { name: "store", run: Effect.die(new Error("connection failed", { cause: new Error("ECONNREFUSED") })) },
        healthy
      ])
      assert.deepStrictEqual(yield* run({ checks }, "doctor"), {
        code: 1,
        stdout: [
          "FAILED upstream: 401: the key is wrong",
          "FAILED store: connection failed (ECONNREFUSED)",
          "ok configuration: every variable is valid"
        ].join("\n"),
        stderr: "",
        unreported: false
      })
      const { code, stdout } = yield* run({ checks }, "doctor", "--json")
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(JSON.parse(stdout), {
        ok: false,
        checks: [
          { name: "upstream", ok: false, detail: "401: the key is wrong" },
          { name: "store", ok: false, detail: "connection failed (ECONNREFUSED)" },
          { name: "configuration", ok: true, detail: "every variable is valid" }
        ]
      })
    })
  )
})
