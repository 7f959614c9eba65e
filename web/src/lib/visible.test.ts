import { expect, it } from "vitest";
import { HIDDEN } from "./visible";

// As the editor joins it to its own characters.
const joined = new RegExp(`x|${HIDDEN.source}`, "gu");

it.each(["\u202e", "\u200b", "\u{e0041}", "\ud800"])(
  "a hidden character is found in a joined pattern",
  (hidden) => expect(`a${hidden}b`.match(joined)).toEqual([hidden]),
);

it("what is seen is not", () => expect("a 😀 é\t\n".match(joined)).toBeNull());
