import { expect, it } from "vitest";
import { templatesOf } from "./templates";

it("templates are created from fields with known names", () => {
  const templates = templatesOf([
    { name: "ServiceName", ref: "ServiceName", type: "string" },
    { name: "tenant.id", ref: 'SpanAttributes["tenant.id"]', type: "string" },
    { name: "http.route", ref: 'SpanAttributes["http.route"]', type: "string" },
    { name: "Events.Name", ref: "Events.Name", type: "string_array" },
    { name: "deployment.environment.name", ref: 'R["deployment.environment.name"]', type: "string" },
    { name: "team", ref: 'ResourceAttributes["team"]', type: "string" },
  ]);
  expect(templates.map(({ expression }) => expression)).toEqual([
    'ResourceAttributes["team"] == user.attributes.team',
    'SpanAttributes["tenant.id"] in user.attributes.tenants',
    'R["deployment.environment.name"] == "staging"',
    'ServiceName in ["checkout", "payments"]',
    "ServiceName in user.attributes.services",
    '"exception" in Events.Name',
  ]);
});

it("fields without a known name give no template", () => {
  expect(templatesOf([{ name: "http.route", ref: "x", type: "string" }])).toEqual([]);
});
