/** What follows the word `Bearer`; "" without it. */
export const credential = (header: string | undefined): string => {
  const found = header === undefined ? null : bearer.exec(header)
  return found?.[1] ?? ""
}

const bearer = /^bearer +(.*)$/i
