import { type ContenderName, contenderNames } from "../contenders/Contender.ts"
import { type Medians, type Metric, metrics } from "./Measurement.ts"
import type { Verdict } from "./Targets.ts"

const number = (value: number) =>
  value.toLocaleString("en-US", { maximumFractionDigits: value >= 1000 ? 0 : value >= 10 ? 1 : 3 })

const row = (cells: ReadonlyArray<string>) => `| ${cells.join(" | ")} |`

const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>) =>
  [row(head), row(head.map(() => "---")), ...rows.map(row)].join("\n")

/** The yardstick of a metric, so that no figure stands alone. */
const yardstick = (metric: Metric): ContenderName => (metric === "models" ? "bare-node" : "nginx")

const cell = (of: Medians, metric: Metric, contender: ContenderName) => {
  const value = of(metric, contender)
  if (value === undefined) return ""
  const base = of(metric, yardstick(metric))
  return base === undefined || base === 0 ? number(value) : `${number(value)} (${(value / base).toFixed(3)})`
}

/** Medians of the rounds, in brackets the ratio to nginx (of `/v1/models`: to the bare server). */
export const figuresTable = (of: Medians) => {
  const measured = (Object.keys(metrics) as Array<Metric>).filter((metric) =>
    contenderNames.some((contender) => of(metric, contender) !== undefined)
  )
  const present = contenderNames.filter((contender) => measured.some((metric) => of(metric, contender) !== undefined))
  return table(
    ["median (ratio)", ...present],
    measured.map((metric) => [metrics[metric], ...present.map((contender) => cell(of, metric, contender))])
  )
}

export const targetsTable = (verdicts: ReadonlyArray<Verdict>) =>
  table(
    ["what", "target", "measured", "met"],
    verdicts.map(({ what, target, measured, met }) => [
      what,
      target,
      measured === undefined ? "" : number(measured),
      met === undefined ? "not measured" : met ? "yes" : "**no**"
    ])
  )
