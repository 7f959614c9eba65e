import { expect, it } from "vitest";
import { setupOfUrl, sourceOfUrl } from "./url";

it("reads the step and the table, and nothing that is neither", () => {
  expect(setupOfUrl({ step: "fields", database: "otel", table: 2024 })).toEqual({
    step: "fields",
    database: "otel",
    table: "2024",
  });
  expect(setupOfUrl({ step: "elsewhere", database: "otel", other: 1 })).toEqual({});
});

it("reads the tab", () => {
  expect(sourceOfUrl({ tab: "speed" })).toEqual({ tab: "speed" });
  expect(sourceOfUrl({ tab: 1 })).toEqual({});
});
