import { expect, it } from "vitest";
import { identified } from "./Values";

it("entries with one key, or with keys that look like another's number, are told apart", () => {
  const entries = ["a", "a", "0 a", "1 a", "b"].map((key) => ({ key, value: key }));
  const ids = identified(entries).map(({ id }) => id);
  expect(new Set(ids).size).toBe(entries.length);
});
