import { Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { CustomPrompts } from "../../application/ports/storage/CustomPrompts.ts"
import { type CustomPrompt, Prompt } from "../../domain/prompt/Prompt.ts"
import { BlobId } from "../../domain/resource/Blob.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"

const Key = Schema.Struct({ organizationId: OrganizationId, name: Schema.String })

/** Arguments travel as the text of their JSON. */
const columns = {
  name: Schema.String,
  title: Schema.NullOr(Schema.String),
  description: Schema.String,
  arguments: Schema.fromJsonString(Prompt.fields.arguments)
}

const Listed = Schema.Struct(columns)

const Row = Schema.Struct({
  ...columns,
  id: Schema.String,
  content: Schema.String,
  resource: Schema.NullOr(BlobId)
})

export const layer = Layer.effect(
  CustomPrompts,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { briefly, longer } = yield* Patience.make

    const insertRow = SqlSchema.findOneOption({
      Request: Schema.Struct({ organizationId: OrganizationId, ...Row.fields }),
      Result: Schema.Struct({ id: Schema.String }),
      execute: ({ arguments: given, content, description, id, name, organizationId, resource, title }) => sql`
        INSERT INTO prompts (organization_id, name, id, title, description, content, arguments, resource)
        VALUES (${organizationId}, ${name}, ${id}, ${title}, ${description}, ${content}, ${given}::json, ${resource})
        ON CONFLICT (organization_id, name) DO NOTHING RETURNING id`
    })

    const byName = SqlSchema.findOneOption({
      Request: Key,
      Result: Row,
      execute: ({ name, organizationId }) => sql`
        SELECT id, name, title, description, content, arguments::text AS arguments, resource
        FROM prompts WHERE organization_id = ${organizationId} AND name = ${name}`
    })

    const ofWorkspace = SqlSchema.findAll({
      Request: OrganizationId,
      Result: Listed,
      execute: (id) => sql`
        SELECT name, title, description, arguments::text AS arguments
        FROM prompts WHERE organization_id = ${id} ORDER BY name`
    })

    const removeRow = SqlSchema.findOneOption({
      Request: Key,
      Result: Schema.Struct({ id: Schema.String }),
      execute: ({ name, organizationId }) => sql`
        DELETE FROM prompts WHERE organization_id = ${organizationId} AND name = ${name} RETURNING id`
    })

    const insert = Effect.fn("CustomPrompts.insert")(function* (
      organizationId: OrganizationId,
      { id, prompt, resource, text }: CustomPrompt
    ) {
      const { arguments: given, description, name, title } = prompt
      const row = {
        organizationId,
        id,
        name,
        title: title ?? null,
        description,
        arguments: given,
        content: text,
        resource: resource ?? null
      }
      return Option.isSome(yield* Effect.catch(longer(insertRow(row)), toDefect))
    })

    return CustomPrompts.of({
      insert,
      find: Effect.fn("CustomPrompts.find")((organizationId, name) =>
        Effect.map(Effect.catch(longer(byName({ organizationId, name })), toDefect), Option.map(customOf))
      ),
      list: Effect.fn("CustomPrompts.list")((organizationId) =>
        Effect.map(Effect.catch(briefly(ofWorkspace(organizationId)), toDefect), (rows) => rows.map(promptOf))
      ),
      remove: Effect.fn("CustomPrompts.remove")((organizationId, name) =>
        Effect.map(
          Effect.catch(briefly(removeRow({ organizationId, name })), toDefect),
          Option.map(({ id }) => id)
        )
      )
    })
  })
)

const promptOf = ({ arguments: given, description, name, title }: typeof Listed.Type): Prompt => ({
  name,
  ...(title === null ? {} : { title }),
  description,
  arguments: given,
  source: "custom"
})

const customOf = (row: typeof Row.Type): CustomPrompt => ({
  id: row.id,
  prompt: promptOf(row),
  text: row.content,
  resource: row.resource ?? undefined
})
