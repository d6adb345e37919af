import { Schema } from "effect"

export const OrganizationId = Schema.NonEmptyString.pipe(Schema.brand("OrganizationId"))
export type OrganizationId = typeof OrganizationId.Type

export const MemberId = Schema.NonEmptyString.pipe(Schema.brand("MemberId"))
export type MemberId = typeof MemberId.Type

export const ApiKeyId = Schema.NonEmptyString.pipe(Schema.brand("ApiKeyId"))
export type ApiKeyId = typeof ApiKeyId.Type

export const HoldId = Schema.NonEmptyString.pipe(Schema.brand("HoldId"))
export type HoldId = typeof HoldId.Type

/** A model as callers name it. */
export const ModelId = Schema.NonEmptyString.pipe(Schema.brand("ModelId"))
export type ModelId = typeof ModelId.Type
