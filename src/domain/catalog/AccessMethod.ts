import { Schema } from "effect"

/**
 * How a model is reached (section 2.1): `service` with the operator's keys against the caller's credit, the others
 * with the organization's own keys or subscription, without credit.
 */
export const AccessMethod = Schema.Literals(["vendor-a-api-key", "service", "vendor-b-api-key", "vendor-b-chat"])
export type AccessMethod = typeof AccessMethod.Type
