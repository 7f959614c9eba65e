import { LosslessNumber, parse, stringify } from "lossless-json";

export { LosslessNumber };

/** Parses JSON from ClickHouse without rounding 64-bit integers: large ones become a {@link LosslessNumber}. */
export function parseJson(text: string): unknown {
  // The lossless parser is several times slower, and few texts need it.
  if (!/[:,[]\s*-?\d{16,}\s*[,}\]]/.test(text)) {
    return JSON.parse(text);
  }
  return parse(text, null, (number) => {
    const value = Number(number);
    return /^-?\d+$/.test(number) && !Number.isSafeInteger(value) ? new LosslessNumber(number) : value;
  });
}

/** JSON of a value, with large integers unchanged. */
export function writeJson(value: unknown, indent = 2): string {
  return stringify(value, null, indent) ?? "null";
}

/** Single-line JSON in ASCII only, so that invisible characters in text from spans have no effect elsewhere, as in a terminal. */
export function asciiJson(value: unknown): string {
  return writeJson(value, 0).replace(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
