import { Effect, Layer, Option, Result, Schema } from "effect"
import { SqlClient, SqlSchema, Statement } from "effect/sql"
import { MemoryStore } from "../../application/ports/storage/MemoryStore.ts"
import {
  type Memory,
  type MemoryContents,
  type MemoryFilter,
  MemoryId,
  Memory as MemoryModel,
  MemorySource
} from "../../domain/memory/Memory.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"

const Key = { organizationId: OrganizationId, id: MemoryId }

/** Lists and records travel as the text of their JSON. */
const Contents = {
  content: Schema.String,
  tags: Schema.fromJsonString(MemoryModel.fields.tags),
  metadata: Schema.fromJsonString(MemoryModel.fields.metadata)
}

const Row = Schema.Struct({
  ...MemoryModel.fields,
  metadata: Contents.metadata,
  createdAt: SafeInt8,
  updatedAt: SafeInt8
})

const Filter = {
  organizationId: OrganizationId,
  tags: Schema.fromJsonString(Schema.Array(Schema.String)),
  source: Schema.NullOr(MemorySource),
  pinned: Schema.NullOr(Schema.Boolean)
}

export const layer = Layer.effect(
  MemoryStore,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { briefly } = yield* Patience.make

    const columns = sql.literal("id, content, tags, metadata::text AS metadata, created_at, updated_at")
    const now = sql.literal("floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    const textsOf = (json: string) => sql`ARRAY(SELECT jsonb_array_elements_text(${json}::jsonb))`

    const insertRow = SqlSchema.findOne({
      Request: Schema.Struct({ ...Key, ...Contents }),
      Result: Row,
      execute: ({ content, id, metadata, organizationId, tags }) => sql`
        INSERT INTO memories (organization_id, id, content, tags, metadata, created_at, updated_at)
        SELECT ${organizationId}, ${id}, ${content}, ${textsOf(tags)}, ${metadata}::json, now, now
        FROM (SELECT ${now} AS now) clock
        RETURNING ${columns}`
    })

    const byId = SqlSchema.findOneOption({
      Request: Schema.Struct(Key),
      Result: Row,
      execute: ({ id, organizationId }) => sql`
        SELECT ${columns} FROM memories WHERE organization_id = ${organizationId} AND id = ${id}`
    })

    const lockById = SqlSchema.findOneOption({
      Request: Schema.Struct(Key),
      Result: Row,
      execute: ({ id, organizationId }) => sql`
        SELECT ${columns} FROM memories WHERE organization_id = ${organizationId} AND id = ${id} FOR UPDATE`
    })

    const updateRow = SqlSchema.findOne({
      Request: Schema.Struct({ ...Key, ...Contents }),
      Result: Row,
      execute: ({ content, id, metadata, organizationId, tags }) => sql`
        UPDATE memories
        SET content = ${content}, tags = ${textsOf(tags)}, metadata = ${metadata}::json,
            updated_at = greatest(updated_at + 1, ${now})
        WHERE organization_id = ${organizationId} AND id = ${id}
        RETURNING ${columns}`
    })

    const removeRow = SqlSchema.findOneOption({
      Request: Schema.Struct(Key),
      Result: Schema.Struct({ id: MemoryId }),
      execute: ({ id, organizationId }) => sql`
        DELETE FROM memories WHERE organization_id = ${organizationId} AND id = ${id} RETURNING id`
    })

    /**
     * What the index has in the order of the list, side by side: they are merged as far as the page reaches. Each has a
     * limit of its own, so that it is read in this order even where the planner knows nothing of the table yet.
     */
    const everySide = (organizationId: string, source: MemorySource | null, pinned: boolean | null, most: number) =>
      Statement.join(
        " UNION ALL ",
        false
      )(
        sidesOf(source, pinned).map(
          (side) => sql`(
            SELECT m.updated_at, m.id FROM memories m
            WHERE m.organization_id = ${organizationId} AND m.source = ${side.source} AND m.pinned = ${side.pinned}
            ORDER BY m.updated_at DESC, m.id LIMIT ${most})`
        )
      )

    const Page = Schema.Struct({ ...Filter, limit: Schema.Int, offset: Schema.Int })

    const listed = SqlSchema.findAll({
      Request: Page,
      Result: Row,
      execute: ({ limit, offset, organizationId, pinned, source }) => sql`
        SELECT ${columns} FROM (
          SELECT hit.id AS hit FROM (${everySide(organizationId, source, pinned, offset + limit)}) hit
          ORDER BY hit.updated_at DESC, hit.id LIMIT ${limit} OFFSET ${offset}
        ) page JOIN memories ON organization_id = ${organizationId} AND id = hit
        ORDER BY updated_at DESC, id`
    })

    const sideRows = (source: MemorySource | null, pinned: boolean | null) =>
      Statement.csv(sidesOf(source, pinned).map((side) => sql`(${side.source}::text, ${side.pinned}::boolean)`))

    /** From each tag's index as much as the page can need, wherever its memories stand among those of the others. */
    const listedByTags = SqlSchema.findAll({
      Request: Page,
      Result: Row,
      execute: ({ limit, offset, organizationId, pinned, source, tags }) => sql`
        SELECT ${columns} FROM (
          SELECT DISTINCT hit.updated_at AS changed, hit.memory_id AS hit
          FROM (VALUES ${sideRows(source, pinned)}) AS side (source, pinned),
            jsonb_array_elements_text(${tags}::jsonb) AS t (tag), LATERAL (
            SELECT m.updated_at, m.memory_id FROM memory_tags m
            WHERE m.organization_id = ${organizationId} AND m.tag = t.tag
              AND m.source = side.source AND m.pinned = side.pinned
            ORDER BY m.updated_at DESC, m.memory_id LIMIT ${offset + limit}) hit
          ORDER BY changed DESC, hit LIMIT ${limit} OFFSET ${offset}
        ) page JOIN memories ON organization_id = ${organizationId} AND id = hit
        ORDER BY updated_at DESC, id`
    })

    const counted = SqlSchema.findOne({
      Request: Schema.Struct(Filter),
      Result: Schema.Struct({ count: SafeInt8 }),
      execute: ({ organizationId, pinned, source }) => sql`
        SELECT count(*) AS count FROM memories
        WHERE organization_id = ${organizationId} AND (${source}::text IS NULL OR source = ${source})
          AND (${pinned}::boolean IS NULL OR pinned = ${pinned})`
    })

    const countedByTags = SqlSchema.findOne({
      Request: Schema.Struct(Filter),
      Result: Schema.Struct({ count: SafeInt8 }),
      execute: ({ organizationId, pinned, source, tags }) => sql`
        SELECT count(DISTINCT memory_id) AS count FROM memory_tags
        WHERE organization_id = ${organizationId} AND tag = ANY (${textsOf(tags)})
          AND (${source}::text IS NULL OR source = ${source}) AND (${pinned}::boolean IS NULL OR pinned = ${pinned})`
    })

    const insert = Effect.fn("MemoryStore.insert")(
      (organizationId: OrganizationId, id: MemoryId, contents: MemoryContents) =>
        briefly(insertRow({ organizationId, id, ...contents })).pipe(
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.catch(toDefect)
        )
    )

    const update = Effect.fn("MemoryStore.update")(function* <E>(
      organizationId: OrganizationId,
      id: MemoryId,
      change: (memory: Memory) => Result.Result<MemoryContents, E>
    ) {
      const changing = Effect.gen(function* () {
        const found = yield* lockById({ organizationId, id })
        if (Option.isNone(found)) return Result.succeed(Option.none<Memory>())
        const contents = change(found.value)
        if (Result.isFailure(contents)) return Result.fail(contents.failure)
        return Result.succeed(Option.some(yield* updateRow({ organizationId, id, ...contents.success })))
      })
      const done = yield* briefly(sql.withTransaction(changing)).pipe(
        Effect.catchTag("NoSuchElementError", Effect.die),
        Effect.catch(toDefect)
      )
      return yield* Effect.fromResult(done)
    })

    const find = Effect.fn("MemoryStore.find")((organizationId: OrganizationId, id: MemoryId) =>
      Effect.catch(briefly(byId({ organizationId, id })), toDefect)
    )

    const remove = Effect.fn("MemoryStore.remove")((organizationId: OrganizationId, id: MemoryId) =>
      Effect.map(Effect.catch(briefly(removeRow({ organizationId, id })), toDefect), Option.isSome)
    )

    return MemoryStore.of({
      insert,
      find,
      update,
      remove,
      list: Effect.fn("MemoryStore.list")((organizationId, filter, page) => {
        const select = filter.tags.length === 0 ? listed : listedByTags
        return Effect.catch(briefly(select({ organizationId, ...valuesOf(filter), ...page })), toDefect)
      }),
      count: Effect.fn("MemoryStore.count")((organizationId, filter) => {
        const select = filter.tags.length === 0 ? counted : countedByTags
        return briefly(select({ organizationId, ...valuesOf(filter) })).pipe(
          Effect.map(({ count }) => count),
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.catch(toDefect)
        )
      })
    })
  })
)

const valuesOf = ({ pinned, source, tags }: MemoryFilter) => ({
  pinned: pinned ?? null,
  source: source ?? null,
  tags
})

/** Every pair of values that the filter lets through. */
const sidesOf = (source: MemorySource | null, pinned: boolean | null) =>
  MemorySource.literals
    .filter((one) => source === null || one === source)
    .flatMap((one) =>
      [true, false].filter((side) => pinned === null || side === pinned).map((side) => ({ source: one, pinned: side }))
    )
