import { Option, Schema } from "effect"
import type { Driver } from "../Driver.ts"
import { subscriptionResponses } from "../protocols/OpenAiResponses.ts"

/**
 * OpenAI's chat subscriptions, as their open-source command line reaches them: with an access token that belongs to an
 * organization, never to the operator.
 */
export const openAiChatSubscription: Driver = {
  id: "openai-chat",
  auth: "bearer",
  headersOf: (token) => {
    const account = Option.flatMap(claimsOf(token), decodeClaims)
    return Option.match(account, {
      onNone: () => ({}),
      onSome: (claims) => ({ "chatgpt-account-id": claims["https://api.openai.com/auth"].chatgpt_account_id })
    })
  },
  protocol: subscriptionResponses,
  dialect: { outputLimit: "max_completion_tokens", extensions: false },
  baseUrl: "https://chatgpt.com/backend-api/codex",
  keyVariable: "OPENAI_CHAT_TOKEN",
  baseUrlVariable: "OPENAI_CHAT_BASE_URL",
  modelPrefix: ""
}

/** The claims of a JSON web token. They are read, not trusted: the vendor judges the token and the account. */
const claimsOf = (token: string): Option.Option<string> =>
  Option.map(Option.fromNullishOr(token.split(".")[1]), (claims) => Buffer.from(claims, "base64url").toString("utf8"))

/** The id becomes a header, so it may be nothing but a word. */
const decodeClaims = Schema.decodeUnknownOption(
  Schema.fromJsonString(
    Schema.Struct({
      "https://api.openai.com/auth": Schema.Struct({
        chatgpt_account_id: Schema.String.check(Schema.isPattern(/^[\w-]{1,128}$/))
      })
    })
  )
)
