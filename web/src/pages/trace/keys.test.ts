import { expect, it } from "vitest";
import { actionOf, needsFocus } from "./keys";

const key = (name: string, more = {}) =>
  actionOf({ key: name, shiftKey: false, ctrlKey: false, altKey: false, metaKey: false, ...more });

it("keys with modifiers and unknown keys are left to the browser", () => {
  expect(key("e", { ctrlKey: true })).toBeNull();
  expect(key("F5")).toBeNull();
  expect(key("ArrowLeft", { altKey: true })).toBeNull();
});

it("letters with shift go backwards", () => {
  expect(key("E", { shiftKey: true })).toEqual({ type: "error", forward: false });
  expect(key("ArrowLeft", { shiftKey: true })).toEqual({ type: "pan", right: false });
  expect(key("+", { shiftKey: true })).toEqual({ type: "zoom", factor: 0.5 });
});

it("keys that also scroll need the focus, keys that jump do not", () => {
  expect(needsFocus({ type: "move", rows: 1 })).toBe(true);
  expect(needsFocus({ type: "error", forward: true })).toBe(false);
});
