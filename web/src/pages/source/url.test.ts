import { expect, it } from "vitest";
import { parseSetupUrl, parseSourceUrl } from "./url";

it("parses the step and the table, and ignores other parameters", () => {
  expect(parseSetupUrl({ step: "fields", database: "otel", table: 2024 })).toEqual({
    step: "fields",
    database: "otel",
    table: "2024",
  });
  expect(parseSetupUrl({ step: "elsewhere", database: "otel", other: 1 })).toEqual({});
});

it("parses the tab, and the text to find", () => {
  expect(parseSourceUrl({ tab: "speed" })).toEqual({ tab: "speed" });
  expect(parseSourceUrl({ tab: 1 })).toEqual({});
  expect(parseSourceUrl({ find: "tenant.id" })).toEqual({ find: "tenant.id" });
});
