import { Predicate } from "effect"

/** An operation of OpenAPI, as it is made of an endpoint. */
type Operation = Readonly<Record<string, unknown>>

/** What a number in a query may be. */
interface WholeNumber {
  readonly minimum: number
  readonly maximum?: number
  readonly default: number
}

/** Describes parameters of the query as numbers; made of an endpoint they are the texts that they travel as. */
export const numbersInQuery =
  (numbers: Readonly<Record<string, WholeNumber>>) =>
  (operation: Operation): Operation => {
    const { parameters } = operation
    if (!Array.isArray(parameters)) return operation
    const described = parameters.map((parameter: unknown) => {
      if (!Predicate.isObject(parameter)) return parameter
      const number = numbers[String(parameter["name"])]
      return number === undefined ? parameter : { ...parameter, schema: { type: "integer", ...number } }
    })
    return { ...operation, parameters: described }
  }

/** Describes the body of an endpoint with `BodyMayBeAbsent`. */
export const bodyMayBeAbsent = (operation: Operation): Operation =>
  Predicate.isObject(operation["requestBody"])
    ? { ...operation, requestBody: { ...operation["requestBody"], required: false } }
    : operation
