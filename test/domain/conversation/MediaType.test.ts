import { describe, expect, test } from "vitest"
import { typeOfBytes, usualType } from "../../../src/domain/conversation/MediaType.ts"

const bytes = (...parts: ReadonlyArray<number | string>): Uint8Array =>
  new Uint8Array(parts.flatMap((part) => (typeof part === "number" ? [part] : [...Buffer.from(part, "latin1")])))

describe("a medium's type", () => {
  test.each<[string, Uint8Array]>([
    ["image/png", bytes(0x89, "PNG\r\n\x1a\n", 0, 0)],
    ["image/jpeg", bytes(0xff, 0xd8, 0xff, 0xe0, "JFIF")],
    ["image/gif", bytes("GIF89a", 1, 0)],
    ["image/gif", bytes("GIF87a", 1, 0)],
    ["image/webp", bytes("RIFF", 4, 0, 0, 0, "WEBPVP8 ")],
    ["audio/wav", bytes("RIFF", 4, 0, 0, 0, "WAVEfmt ")],
    ["application/pdf", bytes("%PDF-1.7\n")],
    ["audio/mp3", bytes("ID3", 4, 0)],
    ["audio/mp3", bytes(0xff, 0xfb, 0x90, 0x64)],
    ["audio/mp3", bytes(0xff, 0xf3, 0x40, 0xc0)]
  ])("is seen by its first bytes: %s", (type, content) => {
    expect(typeOfBytes(content)).toBe(type)
  })

  test.each([
    ["nothing", bytes()],
    ["half a signature", bytes(0x89, "PN")],
    ["RIFF of another kind", bytes("RIFF", 4, 0, 0, 0, "AVI LIST")],
    ["a text", bytes("<html><body>%PDF-1.7")],
    ["layer 2 of MPEG", bytes(0xff, 0xfd, 0x90, 0x64)],
    ["text in UTF-16", bytes(0xff, 0xfe, 0x41, 0x00)],
    ["a frame without a rate", bytes(0xff, 0xfb, 0xf0, 0x64)],
    ["SVG", bytes('<svg xmlns="http://www.w3.org/2000/svg"/>')]
  ])("is not known of %s", (_, content) => {
    expect(typeOfBytes(content)).toBeUndefined()
  })

  test.each([
    ["image/jpg", "image/jpeg"],
    ["Image/PNG ; q=1", "image/png"],
    ["audio/mpeg", "audio/mp3"],
    ["audio/x-wav", "audio/wav"],
    ["text/plain", "text/plain"],
    ["", ""]
  ])("%j is usually called %j", (given, usual) => {
    expect(usualType(given)).toBe(usual)
  })
})
