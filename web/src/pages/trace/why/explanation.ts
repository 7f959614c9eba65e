import type { Api } from "../../../api/client";
import { countOf } from "../../../lib/numbers";
import { instantOfValue, textOf } from "../../../trace/columns";
import type { Trace } from "../../../trace/model";
import type { TraceUrl } from "../url";

/** Subject of the panel: the user's own access, another user's access, or all users with access. */
export type ExplanationSubject = NonNullable<TraceUrl["why"]>;

/** Shows a span of the trace, and returns whether it is loaded; `null` if the trace is not shown. */
export type ShowSpan = ((span: Api["SpanMention"]) => boolean) | null;

/** Converts the verdict of a policy to the outcome of an expression. */
export function outcomeOf(outcome: Api["PolicyVerdict"]): Api["PolicyOutcome"] {
  return outcome === "satisfied" ? "true" : outcome === "broken" ? "error" : "false";
}

const VERDICTS: Readonly<Record<Api["AccessVerdict"], string>> = {
  granted: "Access granted",
  no_policy: "No role has a policy",
  not_satisfied: "No policy matches",
  key_constraint: "The constraint of the key does not match",
  disabled: "The account is disabled",
  suspended: "Access is suspended",
  password_change_required: "The password has to be changed first",
  broken: "A policy is broken",
};

/** Short text of the verdict, or its code if a later version introduced it. */
export function verdictText(verdict: Api["AccessVerdict"]): string {
  return VERDICTS[verdict] ?? verdict;
}

/** The first policy that grants access, and the number of further ones; `null` if there is none. */
export function grantingPolicy(
  explanation: Pick<Api["AccessExplanation"], "visible" | "policies">,
): { role: string; title: string; more: number } | null {
  const satisfied = explanation.visible
    ? explanation.policies.filter(({ outcome }) => outcome === "satisfied")
    : [];
  const [first] = satisfied;
  return first === undefined ? null : { role: first.role, title: first.title, more: satisfied.length - 1 };
}

/** Policies in order of relevance: satisfied, broken, not satisfied; within each, in the order of the roles. */
export function sortByRelevance(policies: readonly Api["ExplainedPolicy"][]): Api["ExplainedPolicy"][] {
  const withOutcome = (outcome: Api["PolicyVerdict"]) =>
    policies.filter((policy) => policy.outcome === outcome);
  return [...withOutcome("satisfied"), ...withOutcome("broken"), ...withOutcome("not_satisfied")];
}

/** Properties that identify spans of a trace. */
type SpanIdentities = Pick<Trace, "ids" | "spans" | "columns">;

/** Maximum length in characters of span names in explanations. */
const MAX_TEXT = 100;

/** Number of the span that an explanation mentions. Its id may be empty or ambiguous; then start, name and service identify it. */
export function mentionedSpan(trace: SpanIdentities, mention: Api["SpanMention"]): number | undefined {
  const numbers = numbersById(trace.ids).get(mention.span_id) ?? [];
  // An empty id does not identify a span, even if only one span has it: the mentioned span may have arrived later.
  if (numbers.length === 1 && mention.span_id !== "") {
    return numbers[0];
  }
  const start = instantOfValue(mention.start);
  const { columns } = trace;
  const isTruncatedTo = (value: unknown, wanted: string | undefined) =>
    wanted === undefined || Array.from(textOf(value)).slice(0, MAX_TEXT).join("") === wanted;
  // `undefined` if the span arrived later and is not loaded.
  return numbers.find((index) => {
    const span = trace.spans[index];
    const instant = span === undefined ? null : instantOfValue(span[columns.timestamp]);
    return (
      span !== undefined &&
      instant?.seconds === start?.seconds &&
      instant?.nanos === start?.nanos &&
      (columns.name === undefined || isTruncatedTo(span[columns.name], mention.name)) &&
      (columns.service === undefined || isTruncatedTo(span[columns.service], mention.service))
    );
  });
}

const numbersOfIds = new WeakMap<readonly string[], ReadonlyMap<string, readonly number[]>>();

/** Numbers of the spans with each id. Cached per trace, which may have 100,000 spans and an explanation with thousands of
 * mentions. */
function numbersById(ids: readonly string[]): ReadonlyMap<string, readonly number[]> {
  const cached = numbersOfIds.get(ids);
  if (cached !== undefined) {
    return cached;
  }
  const numbers = new Map<string, number[]>();
  ids.forEach((id, index) => {
    const sameId = numbers.get(id);
    if (sameId === undefined) {
      numbers.set(id, [index]);
    } else {
      sameId.push(index);
    }
  });
  numbersOfIds.set(ids, numbers);
  return numbers;
}

/** Matching spans that the explanation mentions, by number, with the policies that each satisfies. Of indistinguishable spans,
 * only the first is included. */
export function findMatchingSpans(
  trace: SpanIdentities,
  explanation: Pick<Api["AccessExplanation"], "policies"> | undefined,
): ReadonlyMap<number, readonly Api["ExplainedPolicy"][]> {
  const result = new Map<number, Api["ExplainedPolicy"][]>();
  for (const policy of explanation?.policies ?? []) {
    for (const mention of policy.outcome === "satisfied" ? policy.spans : []) {
      const span = mentionedSpan(trace, mention);
      if (span !== undefined) {
        result.set(span, [...(result.get(span) ?? []), policy]);
      }
    }
  }
  return result;
}

/** Number of spans that satisfy a policy, and how many of them are listed. */
export function countText(count: number, listed: number): string {
  const spans = countOf(count, "span matches", "spans match");
  return listed > 0 && listed < count ? `${spans}; the first ${listed.toLocaleString("en")}:` : spans;
}

/** Score of the best partially matching span. It is rounded down and at most 99 %, so that it never looks like a match. */
export function nearestText(score: number): string {
  const percent = Math.min(99, Math.max(0, Math.floor(score * 100)));
  return `meets ${percent} % of the policy`;
}

/** Number of users who can see the trace, and the total number of users. */
export function viewersText({ viewers, users, total_users }: Api["TraceViewers"]): string {
  const format = (value: number) => value.toLocaleString("en");
  return users < total_users
    ? `${format(viewers.length)} of the first ${format(users)} users can see this trace; ${format(total_users - users)} more were not evaluated`
    : `${format(viewers.length)} of ${countOf(total_users, "user")} can see this trace`;
}
