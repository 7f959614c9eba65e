import { LosslessNumber, parse, stringify } from "lossless-json";

export { LosslessNumber };

/** Parses JSON from the store without rounding its 64-bit integers: such a one is a {@link LosslessNumber}. */
export function parseJson(text: string): unknown {
  // The exact parser takes several times as long, and only few texts need it.
  if (!/[:,[]\s*-?\d{16,}\s*[,}\]]/.test(text)) {
    return JSON.parse(text);
  }
  return parse(text, null, (number) => {
    const value = Number(number);
    return /^-?\d+$/.test(number) && !Number.isSafeInteger(value) ? new LosslessNumber(number) : value;
  });
}

/** The JSON of a value, with large integers as they were. */
export function writeJson(value: unknown, indent = 2): string {
  return stringify(value, null, indent) ?? "null";
}

/** JSON in ASCII alone, on one line: text from spans must not do elsewhere what cannot be seen, as in a terminal. */
export function plainJson(value: unknown): string {
  return writeJson(value, 0).replace(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
