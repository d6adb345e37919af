import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { ServerSentEvents } from "../../../src/adapters/vendors/framing/ServerSentEvents.ts"

const encoder = new TextEncoder()

/** All data of a stream that arrives in these packets. */
const read = (...packets: ReadonlyArray<Uint8Array>): ReadonlyArray<string> => {
  const frames = new ServerSentEvents()
  const data = packets.flatMap((packet) => frames.push(packet) ?? expect.fail("the line is said to be too long"))
  return [...data, ...frames.end()]
}

const line = fc.string({ unit: "binary", maxLength: 30 }).map((text) => text.replaceAll(/[\r\n]/g, ""))

/** The lines of one event, of the kinds that vendors send, and the data that it brings. */
const event = fc
  .tuple(
    fc.array(line, { minLength: 1, maxLength: 3 }),
    fc.constantFrom("data:", "data: "),
    fc.constantFrom([], [": keep-alive"], ["event: message", "id: 7"], ["retry: 100"], [":"])
  )
  .map(([data, field, others]) => ({
    // One space after the colon belongs to the field.
    lines: [
      ...others,
      ...data.map((text) => (field === "data:" && text.startsWith(" ") ? `data: ${text}` : `${field}${text}`))
    ],
    data: data.join("\n")
  }))

const stream = fc.record({
  events: fc.array(event, { maxLength: 6 }),
  lineBreak: fc.constantFrom("\n", "\r\n", "\r"),
  cuts: fc.array(fc.nat({ max: 400 }), { maxLength: 12 })
})

describe("an event stream", () => {
  test("gives the same data however its bytes are cut into packets, with any line break", () => {
    fc.assert(
      fc.property(stream, ({ cuts, events, lineBreak }) => {
        const text = events.map(({ lines }) => [...lines, "", ""].join(lineBreak)).join("")
        const bytes = encoder.encode(text)
        const ends = [...cuts.filter((at) => at < bytes.length).toSorted((a, b) => a - b), bytes.length]
        const packets = ends.map((end, index) => bytes.subarray(index === 0 ? 0 : ends[index - 1], end))
        expect(read(...packets)).toEqual(events.map(({ data }) => data))
      }),
      { numRuns: 1_000 }
    )
  })

  test("reads what is no text, and a byte order mark, as it would in one piece", () => {
    const byte = fc.constantFrom(0x20, 0x61, 0x0d, 0x7f, 0x80, 0xbb, 0xbf, 0xc3, 0xe4, 0xef, 0xf0, 0x9f, 0xff)
    const field = encoder.encode("data: ")
    fc.assert(
      fc.property(
        fc.constantFrom([], [[0xef, 0xbb, 0xbf]], [[0xef], [], [0xbb, 0xbf]], [[]]),
        fc.array(fc.array(byte, { maxLength: 8 }), { maxLength: 8 }),
        (mark, parts) => {
          const packets = [...mark, field, ...parts].map((bytes) => Uint8Array.from(bytes))
          expect(read(...packets)).toEqual(read(Buffer.concat(packets)))
        }
      ),
      { numRuns: 1_000 }
    )
    expect(read(encoder.encode("\ufeffdata: one\n\n"), encoder.encode("\ufeffdata: two\n\n"))).toEqual(["one"])
  })

  test("counts a last event whose blank line is missing", () => {
    expect(read(encoder.encode("data: one\n\ndata: two"))).toEqual(["one", "two"])
    expect(read(encoder.encode("data: one\n\ndata: two\n"))).toEqual(["one", "two"])
  })

  test("has no event without data", () => {
    expect(read(encoder.encode("\n\n: ping\n\nevent: message\n\nid: 1\n\n"))).toEqual([])
  })

  test("is refused when a line has no end, before it fills the memory", () => {
    const frames = new ServerSentEvents()
    const packet = encoder.encode("x".repeat(1024 * 1024))
    let packets = 0
    while (frames.push(packet) !== null && packets < 20) packets++
    expect(packets).toBeLessThan(10)
  })

  test("is refused when an event has no end, whatever its lines", () => {
    const frames = new ServerSentEvents()
    const packet = encoder.encode(`data: ${"x".repeat(1024)}\n`.repeat(1024))
    let packets = 0
    while (frames.push(packet) !== null && packets < 20) packets++
    expect(packets).toBeLessThan(10)
  })

  test("looks at every byte of a long line once", () => {
    const frames = new ServerSentEvents()
    const packet = encoder.encode("x".repeat(256))
    frames.push(encoder.encode("data: "))
    const started = performance.now()
    // 6 MB in 24,000 packets. To begin anew with each of them is 72 GB.
    for (let packets = 0; packets < 24_000; packets++) expect(frames.push(packet)?.length).toBe(0)
    expect(frames.push(encoder.encode("\n\n"))?.[0]?.length).toBe(24_000 * 256)
    expect(performance.now() - started).toBeLessThan(3_000)
  })
})
