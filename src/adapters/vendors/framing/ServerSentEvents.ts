/** A line, or the data of an event, that never ends must not fill the memory. In UTF-16 units. */
const longest = 8 * 1024 * 1024

const none: ReadonlyArray<string> = []

/**
 * Bytes of an event stream in, the `data` of its events out, by the rules of the HTML standard: any line ending,
 * comments, several data lines, characters split over packets. A last event without its blank line counts too.
 */
export class ServerSentEvents {
  readonly #decoder = new TextDecoder()
  /** Whether the decoder has seen the beginning, where it drops a byte order mark, and holds no half of a character. */
  #isClear = false
  /** The line under way. */
  #rest = ""
  /** Whether it ends in a carriage return, which may be the first half of a line break. */
  #carriage = false
  #data: string | undefined

  /** The data of every event that these bytes complete, or null if a line or an event outgrew all bounds. */
  push(bytes: Uint8Array): ReadonlyArray<string> | null {
    const text = this.#decode(bytes)
    if (this.#rest.length + text.length + (this.#data?.length ?? 0) > longest) return null
    if (this.#carriage || this.#rest === "" || /[\r\n]/.test(text)) return this.#read(this.#rest + text)
    // A long line comes in many packets: none of them is looked through twice, or copied before the line is whole.
    this.#rest += text
    return none
  }

  /** What ends in ASCII ends no character halfway, and is decoded for a fraction of what a decoder of streams takes. */
  #decode(bytes: Uint8Array): string {
    const endsWhole = (bytes.at(-1) ?? 0x80) < 0x80
    if (this.#isClear && endsWhole) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8")
    if (bytes.length > 0) this.#isClear = endsWhole
    return this.#decoder.decode(bytes, { stream: true })
  }

  /** The data of the event that was under way when the stream ended. */
  end(): ReadonlyArray<string> {
    return this.#read(`${this.#rest}${this.#decoder.decode()}\n\n`)
  }

  #read(text: string): ReadonlyArray<string> {
    const events: Array<string> = []
    let start = 0
    let feed = text.indexOf("\n")
    let carriage = text.indexOf("\r")
    this.#carriage = false
    for (;;) {
      const end = carriage !== -1 && (feed === -1 || carriage < feed) ? carriage : feed
      if (end === -1) break
      if (end === carriage && end === text.length - 1) {
        this.#carriage = true
        break
      }
      this.#line(text, start, end, events)
      start = end + (end === carriage && feed === end + 1 ? 2 : 1)
      // Neither is looked for again where it is known to be ahead, or not to be.
      if (feed !== -1 && feed < start) feed = text.indexOf("\n", start)
      if (carriage !== -1 && carriage < start) carriage = text.indexOf("\r", start)
    }
    this.#rest = start === 0 ? text : text.slice(start)
    return events
  }

  #line(text: string, start: number, end: number, events: Array<string>): void {
    if (start === end) {
      if (this.#data !== undefined) events.push(this.#data)
      this.#data = undefined
    } else if (text.startsWith("data:", start)) {
      const value = text.slice(text.charCodeAt(start + 5) === 32 ? start + 6 : start + 5, end)
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`
    }
  }
}
