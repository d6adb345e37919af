/** The name of an agent that was given none (section 4.3): `my-agent` is `My Agent`. */
export const nameOf = (id: string): string =>
  id
    .split("-")
    .filter((word) => word !== "")
    .map((word) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`)
    .join(" ")
