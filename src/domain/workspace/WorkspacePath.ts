import { Schema } from "effect"

/**
 * A file's place in a workspace (decisions 3), such as `agents/default-agent/default-agent.yml` or `.env`: relative,
 * with `/`, and without the segments that would lead elsewhere.
 */
export const WorkspacePath = Schema.String.check(
  Schema.makeFilter(
    (path) =>
      (path.length <= 1024 &&
        // oxlint-disable-next-line no-control-regex
        !/[\\\0-\x1f\x7f]/.test(path) &&
        path.split("/").every((segment) => segment !== "" && segment !== "." && segment !== "..")) ||
      "a relative path of names divided by /"
  )
).pipe(Schema.brand("WorkspacePath"))
export type WorkspacePath = typeof WorkspacePath.Type

/** Where provider keys are (decisions 3). */
export const environmentPath = WorkspacePath.make(".env")

/** What the user prefers for every agent (decisions 3). */
export const preferencesPath = WorkspacePath.make("preferences.yml")
