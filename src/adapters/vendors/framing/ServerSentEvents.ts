/** A line that never ends must not fill the memory. In UTF-16 units. */
const longestLine = 8 * 1024 * 1024

/**
 * Bytes of an event stream in, the `data` of its events out, by the rules of the HTML standard: any line ending,
 * comments, several data lines, characters split over packets. A last event without its blank line counts too.
 */
export class ServerSentEvents {
  readonly #decoder = new TextDecoder()
  #rest = ""
  #data: string | undefined

  /** The data of every event that these bytes complete, or null if a line outgrew all bounds. */
  push(bytes: Uint8Array): ReadonlyArray<string> | null {
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true })
    if (text.length > longestLine) return null
    return this.#read(text)
  }

  /** The data of the event that was under way when the stream ended. */
  end(): ReadonlyArray<string> {
    return this.#read(`${this.#rest}${this.#decoder.decode()}\n\n`)
  }

  #read(text: string): ReadonlyArray<string> {
    const events: Array<string> = []
    let start = 0
    for (;;) {
      const feed = text.indexOf("\n", start)
      const carriage = text.indexOf("\r", start)
      const end = carriage !== -1 && (feed === -1 || carriage < feed) ? carriage : feed
      // A carriage return at the very end may be the first half of a line break.
      if (end === -1 || (end === carriage && end === text.length - 1)) break
      this.#line(text, start, end, events)
      start = end + (end === carriage && feed === end + 1 ? 2 : 1)
    }
    this.#rest = text.slice(start)
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
