import { expect, it } from "vitest";
import { setupOfUrl, sourceOfUrl } from "./url";

it("parses the step and the table, and ignores other parameters", () => {
  expect(setupOfUrl({ step: "fields", database: "otel", table: 2024 })).toEqual({
    step: "fields",
    database: "otel",
    table: "2024",
  });
  expect(setupOfUrl({ step: "elsewhere", database: "otel", other: 1 })).toEqual({});
});

it("parses the tab", () => {
  expect(sourceOfUrl({ tab: "speed" })).toEqual({ tab: "speed" });
  expect(sourceOfUrl({ tab: 1 })).toEqual({});
});
