import { pathToFileURL } from "node:url"
import { freshDatabase } from "../fixtures/Postgres.ts"
import { prepareService, type ServiceOptions, type ServiceProcess } from "../fixtures/ServiceProcess.ts"

export interface ReplicaOptions extends Omit<ServiceOptions, "databaseUrl"> {
  /** Of the database that they share. */
  readonly name: string
  /** How far the clock of each is off, in milliseconds; as many replicas as figures. Default: three right ones. */
  readonly clocks?: ReadonlyArray<number>
}

/** Processes on one empty Postgres database, prepared and not started. */
export const prepareReplicas = async ({
  clocks = [0, 0, 0],
  env = {},
  name,
  ...options
}: ReplicaOptions): Promise<ReadonlyArray<ServiceProcess>> => {
  const databaseUrl = await freshDatabase(name)
  return await Promise.all(
    clocks.map((offset) =>
      prepareService({ ...options, databaseUrl, env: { ...(offset === 0 ? {} : shifted(offset)), ...env } })
    )
  )
}

const shifted = (offset: number) => ({
  NODE_OPTIONS: `--import=${pathToFileURL(`${import.meta.dirname}/ShiftedClock.ts`).href}`,
  CLOCK_OFFSET: `${offset}`
})

/** The replica whose turn it is. */
export const inTurn = (replicas: ReadonlyArray<ServiceProcess>, turn: number): ServiceProcess => {
  const replica = replicas[turn % replicas.length]
  if (replica === undefined) throw new Error("there is no replica")
  return replica
}
