/** How many forms of frames are learned in one stream. Some vendors pad every frame with something else. */
const mostForms = 3

/** What stands between the quotes of a JSON string that says what it looks like. */
const plain = /^[^"\\\p{Cc}]*$/u

/** What stands before the text, as compact and as spaced writers have it. */
const fields = ['"content":', '"content": ']

const probe = "\u0001"

/**
 * The text frames of one stream: nearly all of its frames, and alike to the byte but for the text. Once one of them was
 * read, the others are not parsed any more. `textOf` gives the text of a parsed frame that has nothing else to say.
 */
export class TextFrames {
  readonly #textOf: (json: unknown) => string | undefined
  /** Up to the text, its quote included; empty before a form is learned. */
  #before = ""
  #after = ""
  #left = mostForms

  constructor(textOf: (json: unknown) => string | undefined) {
    this.#textOf = textOf
  }

  /** The text of a frame that differs from a learned one in nothing else; undefined for any other. */
  read(frame: string): string | undefined {
    const start = this.#before.length
    const end = frame.length - this.#after.length
    if (start === 0 || end < start) return undefined
    // Slices are compared as memory, many units at a time; `startsWith` takes one by one, and several times as long.
    if (frame.slice(0, start) !== this.#before || frame.slice(end) !== this.#after) return undefined
    const text = frame.slice(start, end)
    return plain.test(text) ? text : undefined
  }

  /** Learns from a frame of this text. What surrounds the text counts as its form when another text there is read as such. */
  learn(frame: string, text: string): void {
    if (this.#left === 0 || text === "") return
    const literal = JSON.stringify(text)
    const field = fields.find((field) => frame.includes(field + literal))
    if (field === undefined) return
    this.#left--
    const at = frame.lastIndexOf(field + literal) + field.length
    const before = frame.slice(0, at)
    const after = frame.slice(at + literal.length)
    if (this.#textOf(JSON.parse(before + JSON.stringify(probe) + after)) !== probe) return
    this.#before = `${before}"`
    this.#after = `"${after}`
  }
}
