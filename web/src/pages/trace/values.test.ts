import { expect, it } from "vitest";
import { withIds } from "./Values";

it("entries with the same key, or with keys that contain another's number, have different ids", () => {
  const entries = ["a", "a", "0 a", "1 a", "b"].map((key) => ({ key, value: key }));
  const ids = withIds(entries).map(({ id }) => id);
  expect(new Set(ids).size).toBe(entries.length);
});
