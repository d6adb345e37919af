/** Notes that a field of the request, at a path like `messages[0].content`, cannot be told to the vendor. */
export type Refuse = (path: string, message: string) => void

export const noField = "This model's provider has no such field"
