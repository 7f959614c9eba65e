import { describe, expect, it } from "vitest";
import type { Api } from "../../../api/client";
import { buildTrace } from "../../../trace/model";
import { TEST_SCHEMA, testSpan } from "../../../trace/testSpans";
import {
  countText,
  findMatchingSpans,
  grantingPolicy,
  mentionedSpan,
  nearestText,
  sortByRelevance,
  viewersText,
} from "./explanation";

const START = "2026-11-20T08:01:02.000000003Z";

const policy = (
  title: string,
  outcome: Api["PolicyVerdict"],
  spans: readonly string[] = [],
): Api["ExplainedPolicy"] => ({
  role: "payments",
  title,
  outcome,
  satisfied_by: spans.length,
  spans: spans.map((span_id) => ({ span_id, start: START, name: "charge", service: "card" })),
});

/** Spans as numbered by the page. */
const traceWith = (spans: readonly Record<string, string>[]) => {
  const { columns } = buildTrace("t", TEST_SCHEMA, [testSpan("a", "", 0, 1)]);
  const ids = spans.map((span) => span.SpanId ?? "");
  return { ids, spans, columns };
};

describe("policies that grant access to a trace", () => {
  const policies = [
    policy("Broken", "broken"),
    policy("Errors", "not_satisfied"),
    policy("My team", "satisfied", ["b", "a"]),
    policy("My tenant", "satisfied", ["b", "c"]),
  ];

  it("are summarised as the first one, with the number of further ones", () => {
    expect(grantingPolicy({ visible: true, policies })).toEqual({
      role: "payments",
      title: "My team",
      more: 1,
    });
  });

  it("are none if the trace is not visible, or if no policy matches", () => {
    expect(grantingPolicy({ visible: false, policies })).toBeNull();
    expect(grantingPolicy({ visible: true, policies: policies.slice(0, 2) })).toBeNull();
  });

  it("have their matching spans, as far as these are loaded", () => {
    const trace = traceWith(["x", "y", "b", "z", "a", "v", "w", "d"].map((id) => ({ SpanId: id })));
    const result = [...findMatchingSpans(trace, { policies })].map(([span, by]) => [
      span,
      by.map(({ title }) => title),
    ]);
    expect(result).toEqual([
      [2, ["My team", "My tenant"]],
      [4, ["My team"]],
    ]);
    expect(findMatchingSpans(trace, { policies: [policy("Other", "not_satisfied", ["a"])] }).size).toBe(0);
    expect(findMatchingSpans(trace, undefined).size).toBe(0);
  });

  it("mention spans, which start, name and service identify among spans with the same id", () => {
    const trace = traceWith([
      { SpanId: "", Timestamp: START, SpanName: "alpha", ServiceName: "first" },
      { SpanId: "", Timestamp: START, SpanName: "beta", ServiceName: "second" },
      { SpanId: "", Timestamp: "2026-11-20T08:01:02.000000004Z", SpanName: "beta", ServiceName: "second" },
    ]);
    const number = (start: string, name: string, service: string) =>
      mentionedSpan(trace, { span_id: "", start, name, service });
    expect(number(START, "alpha", "first")).toBe(0);
    expect(number(START, "beta", "second")).toBe(1);
    expect(number("2026-11-20T08:01:02.000000004Z", "beta", "second")).toBe(2);
    expect(number("2026-11-20T08:01:02.000000005Z", "beta", "second")).toBeUndefined();
    expect(mentionedSpan(trace, { span_id: "a", start: START })).toBeUndefined();
    // The only span without an id is not necessarily the mentioned one.
    const single = traceWith([{ SpanId: "", SpanName: "loaded", ServiceName: "s", Timestamp: START }]);
    expect(mentionedSpan(single, { span_id: "", start: START, name: "later", service: "s" })).toBeUndefined();
    expect(mentionedSpan(single, { span_id: "", start: START, name: "loaded", service: "s" })).toBe(0);
  });

  it("come before broken policies and policies without a match", () => {
    expect(sortByRelevance(policies).map(({ title }) => title)).toEqual([
      "My team",
      "My tenant",
      "Broken",
      "Errors",
    ]);
  });
});

describe("counts as text", () => {
  it("show if not all spans are listed", () => {
    expect(countText(1, 1)).toBe("1 span matches");
    expect(countText(3, 3)).toBe("3 spans match");
    expect(countText(1200, 20)).toBe("1,200 spans match; the first 20:");
    expect(countText(1200, 0)).toBe("1,200 spans match");
  });

  it("never show 100 % for a span that does not match", () => {
    expect(nearestText(0.5)).toBe("meets 50 % of the policy");
    expect(nearestText(0.9999)).toBe("meets 99 % of the policy");
    expect(nearestText(0)).toBe("meets 0 % of the policy");
  });

  it("show the number of users, and if not all were evaluated", () => {
    const viewers = [{ username: "ada", policies: [] }];
    const rest = {
      trace_id: "1",
      spans: 1,
      details: false,
      broken: [],
      must_change_password: [],
      suspended: [],
      changed_meanwhile: false,
    };
    expect(viewersText({ ...rest, viewers, users: 12, total_users: 12 })).toBe(
      "1 of 12 users can see this trace",
    );
    expect(viewersText({ ...rest, viewers: [], users: 1, total_users: 1 })).toBe(
      "0 of 1 user can see this trace",
    );
    expect(viewersText({ ...rest, viewers, users: 10000, total_users: 12000 })).toBe(
      "1 of the first 10,000 users can see this trace; 2,000 more were not evaluated",
    );
  });
});
