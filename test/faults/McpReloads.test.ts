import { Effect, Layer, ManagedRuntime } from "effect"
import { randomUUID } from "node:crypto"
import { expect, test } from "vitest"
import * as EgressLive from "../../src/adapters/egress/EgressLive.ts"
import * as McpConnectorLive from "../../src/adapters/mcp/McpConnectorLive.ts"
import { RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { agentFiles, documentWith, fileOf } from "../application/AgentFiles.ts"
import { gone, processesWith } from "../fixtures/mcp/Processes.ts"
import { misbehaving } from "../fixtures/mcp/Servers.ts"

test("a hundred reloads of an agent leave the processes of its servers as many as they were", async () => {
  const mark = randomUUID()
  const workspace = OrganizationId.make("o")
  const fileAt = (turn: number) => {
    const config = misbehaving("grandchildren", mark, `${turn}`)
    return fileOf(documentWith({ changing: config, steady: misbehaving("well", mark) }))
  }
  const files = agentFiles(fileAt(0))
  const environment = { PATH: process.env["PATH"] ?? "" }
  const connector = Layer.provide(
    McpConnectorLive.layer({ stdio: "allowed", environment }),
    EgressLive.layer({ allowPrivate: true })
  )
  const runtime = ManagedRuntime.make(Layer.provide(files.layer, connector))
  const { of, reload } = await runtime.runPromise(RunningAgents)
  const answer = (server: string) =>
    runtime.runPromise(
      Effect.flatMap(of(workspace), ({ mcp }) =>
        Effect.flatMap(mcp.connection(server), ({ callTool }) => callTool("answer", {}))
      )
    )

  const steady = await answer("steady")
  await answer("changing")
  const before = (await processesWith(`MARK=${mark}`)).length
  const handles = process.getActiveResourcesInfo().length
  for (let turn = 1; turn <= 100; turn++) {
    files.put(fileAt(turn))
    expect(await runtime.runPromise(reload(workspace))).toEqual({ changes: ["mcpServers"], restarted: true })
    // Every other one is replaced while it is still being connected.
    if (turn % 2 === 0) await answer("changing")
  }
  expect(await processesWith(`MARK=${mark}`)).toHaveLength(before)
  expect(process.getActiveResourcesInfo().length).toBeLessThanOrEqual(handles + 5)
  // The one that did not change is still the same process.
  expect(await answer("steady")).toEqual(steady)
  await runtime.dispose()
  expect(await gone(`MARK=${mark}`, 5_000)).toEqual([])
}, 600_000)
