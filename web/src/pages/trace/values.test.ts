import { describe, expect, it } from "vitest";
import { displayText, isWebLink, withIds } from "./Values";

it("entries with the same key, or with keys that contain another's number, have different ids", () => {
  const entries = ["a", "a", "0 a", "1 a", "b"].map((key) => ({ key, value: key }));
  const ids = withIds(entries).map(({ id }) => id);
  expect(new Set(ids).size).toBe(entries.length);
});

describe("a value", () => {
  it("of compact JSON is indented", () => {
    expect(displayText('{"a":[1,"b"]}')).toBe('{\n  "a": [\n    1,\n    "b"\n  ]\n}');
    expect(displayText("[12345678901234567890]")).toContain("12345678901234567890");
  });

  it.each(["{", "{a}", '{"a": 1}', '{"a":1e400}', '{"a":1.50}', '{"a":1,"a":2}', "[text]", "plain"])(
    "%s stays as it is",
    (text) => expect(displayText(text)).toBe(text),
  );

  it("is a link if it is the address of a web page, and nothing else", () => {
    expect(isWebLink("https://example.com/a?b=c#d")).toBe(true);
    for (const text of [
      "javascript:alert(1)",
      "see https://example.com",
      "http://",
      "//x",
      'https://x/"a',
      "data:text/html,x",
    ]) {
      expect(isWebLink(text), text).toBe(false);
    }
  });
});
