import { resolve } from "node:path"
import { defineConfig } from "vitest/config"

/** What needs no Postgres and no process. A test that does is called `…Pg.test.ts`, or stands in another folder. */
const unit = [
  "test/{domain,application}/**/*.test.ts",
  "test/adapters/!(*Pg).test.ts",
  "test/adapters/!(postgres)/**/!(*Pg).test.ts"
]

const faults = "test/faults/**/*.test.ts"

const globalSetup = "test/fixtures/GlobalSetup.ts"

export default defineConfig({
  root: resolve(import.meta.dirname, ".."),
  test: {
    // One more than processors: tests wait for processes and clocks for a quarter of their time.
    maxWorkers: 3,
    // Files keep what they need to themselves, so a worker loads what they import once.
    isolate: false,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    projects: [
      { extends: true, test: { name: "unit", include: unit } },
      {
        extends: true,
        test: {
          name: "integration",
          include: ["test/**/*.test.ts"],
          exclude: [...unit, faults, "test/bench/**"],
          globalSetup
        }
      },
      {
        extends: true,
        test: {
          name: "faults",
          include: [faults],
          globalSetup,
          fileParallelism: false,
          testTimeout: 300_000,
          hookTimeout: 120_000
        }
      }
    ]
  }
})
