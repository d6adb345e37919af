/**
 * The layer rules: domain <- application <- adapters <- main.
 * `npm run check` and `test/LayerRules.test.ts` both run them, through `test/tools/CheckLayers.ts`.
 */
const { overrides } = require("./.oxlintrc.json")

/** Modules at the root of `effect` that are not stable: listed once, in the linter's rule for the same two layers. */
const unstable = overrides[0].rules["no-restricted-imports"][1].paths[0].importNames

const effect = "(^|/)node_modules/effect/dist/"
const stableEffect = `${effect}(index|(?!(${unstable.join("|")})\\.)[A-Z]\\w*|encoding/(Base64|Base64Url|Hex|EncodingError))\\.js$`

/** @type {import("dependency-cruiser").IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: "domain-is-innermost",
      comment: "The domain imports nothing else of this project.",
      severity: "error",
      from: { path: "^src/domain/" },
      to: { path: "^src/", pathNot: "^src/domain/" }
    },
    {
      name: "application-knows-no-adapter",
      comment: "A use case reaches the outside through a port in src/application/ports.",
      severity: "error",
      from: { path: "^src/application/" },
      to: { path: "^src/", pathNot: "^src/(domain|application)/" }
    },
    {
      name: "inner-layers-import-only-stable-effect",
      comment:
        "Domain and application use the package `effect` and its stable modules, no other library, nothing of Node.",
      severity: "error",
      from: { path: "^src/(domain|application)/" },
      to: { pathNot: ["^(src|test)/", stableEffect] }
    },
    {
      name: "adapters-are-siblings",
      comment: "An adapter folder never imports another one: src/main.ts puts them together.",
      severity: "error",
      from: { path: "^src/adapters/([^/]+)" },
      to: { path: "^src/adapters/", pathNot: "^src/adapters/$1/" }
    },
    {
      name: "main-is-outermost",
      comment: "Only src/main.ts knows everything, and nobody knows it.",
      severity: "error",
      from: { path: "^src/adapters/" },
      to: { path: "^src/", pathNot: "^src/(domain|application|adapters)/" }
    },
    {
      name: "source-imports-no-test",
      severity: "error",
      from: { path: "^src/" },
      to: { path: "^test/" }
    },
    {
      name: "no-cycle",
      comment: "Types count too: a cycle of types is one concept in two files.",
      severity: "error",
      from: { path: "^src/" },
      to: { circular: true }
    },
    {
      name: "no-missing-module",
      severity: "error",
      from: { path: "^src/" },
      to: { couldNotResolve: true }
    },
    {
      name: "no-undeclared-package",
      comment: "What the service imports stands under `dependencies`; a script that refreshes data may use more.",
      severity: "error",
      from: { path: "^src/", pathNot: "/Refresh\\.ts$" },
      to: { dependencyTypes: ["npm-dev", "npm-no-pkg", "npm-unknown"] }
    }
  ],
  options: {
    parser: "swc",
    tsPreCompilationDeps: true,
    doNotFollow: { path: "node_modules" },
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "node", "default"] }
  }
}
