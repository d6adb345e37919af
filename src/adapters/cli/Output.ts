import { Console, DateTime } from "effect"
import { CliOutput } from "effect/cli"

/** A command's result: text for people, or with `--json` one line for programs. */
export const print = (json: boolean, data: unknown, text: string) => Console.log(json ? JSON.stringify(data) : text)

export interface Column<Row> {
  readonly header: string
  readonly cell: (row: Row) => string
  /** Numbers stand to the right. */
  readonly align?: "right"
}

/** Columns two spaces apart; `empty` is said when there are no rows. */
export const table = <Row>(rows: ReadonlyArray<Row>, columns: ReadonlyArray<Column<Row>>, empty: string): string => {
  if (rows.length === 0) return empty
  const padded = columns.map(({ align, cell, header }) => {
    const cells = [header.toUpperCase(), ...rows.map((row) => printable(cell(row)))]
    const width = Math.max(...cells.map(CliOutput.displayWidth))
    return cells.map((text) => {
      const space = " ".repeat(width - CliOutput.displayWidth(text))
      return align === "right" ? space + text : text + space
    })
  })
  return ["", ...rows]
    .map((_, line) =>
      padded
        .map((cells) => cells[line])
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}

/** A name may hold anything; it must neither break the table nor steer the terminal. */
// oxlint-disable-next-line no-control-regex -- control characters are what it is about
const printable = (text: string): string => text.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ")

/** ISO 8601, for JSON. */
export const iso = (millis: number): string => DateTime.formatIso(DateTime.makeUnsafe(millis))

export const isoOrNull = (millis: number | null): string | null => (millis === null ? null : iso(millis))

/** UTC to the minute, for people. */
export const minute = (millis: number): string => `${iso(millis).slice(0, 16).replace("T", " ")} UTC`

export const oneLine = (text: string): string => text.replace(/\s*\n\s*/g, " ")
