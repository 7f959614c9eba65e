import { expect, it } from "vitest";
import { HIDDEN_CHARACTERS } from "./sanitize";

// The editor joins the pattern with its own characters in the same way.
const joinParts = new RegExp(`x|${HIDDEN_CHARACTERS.source}`, "gu");

it.each([
  ..."\u202e\u200b\u{e0041}\u034f\u061c\u115f\u17b4\u180b\u180f\u2028\u2065\u2800\u3164\ufe00\ufeff\uffa0",
  ..."\ufff9\ufffc\u{1bca0}\u{1d159}\u{1d173}\u{e0100}",
  "\ud800",
])("an invisible character is found in a joined pattern", (hidden) =>
  expect(`a${hidden}b`.match(joinParts)).toEqual([hidden]),
);

it("a visible character is not found", () => expect("a 😀 ❤️ é אב 김\t\n".match(joinParts)).toBeNull());
