import { Array, Order } from "effect"

interface Dated {
  readonly id: string
  readonly createdAt: number
}

const byAge = Order.combine(
  Order.mapInput(Order.Number, ({ createdAt }: Dated) => createdAt),
  Order.mapInput(Order.String, ({ id }: Dated) => id)
)

/** The order of every listing; ids decide between things of the same millisecond. */
export const oldestFirst = <A extends Dated>(items: Iterable<A>): Array<A> => Array.sort(items, byAge)
