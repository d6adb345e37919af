/** A measured figure of a fault run, for whoever reads its output. */
export const figure = (what: string, seconds: number): void => console.log(`${what}: ${seconds.toFixed(1)} s`)

/** Seconds since a `performance.now()`. */
export const secondsSince = (start: number): number => (performance.now() - start) / 1_000
