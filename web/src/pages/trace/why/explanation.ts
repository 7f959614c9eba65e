import type { Api } from "../../../api/client";
import { instantOfValue, textOf } from "../../../trace/columns";
import type { Trace } from "../../../trace/model";

/** What the panel is about: the reader's own access, that of somebody else, or everybody's. */
export type Why = "own" | "user" | "viewers";

/** A policy as an outcome that expressions have, too. */
export function outcomeOf(outcome: Api["PolicyVerdict"]): Api["PolicyOutcome"] {
  return outcome === "satisfied" ? "true" : outcome === "broken" ? "error" : "false";
}

const VERDICTS: Readonly<Record<Api["AccessVerdict"], string>> = {
  opened: "Sees this trace",
  no_policy: "No role has a policy",
  not_satisfied: "No policy is satisfied",
  restriction: "The key is restricted to other traces",
  disabled: "The account is disabled",
  password_change_required: "The password has to be changed first",
  broken: "A policy is broken",
};

/** The verdict in a few words; its code when it is one of a later version. */
export function verdictText(verdict: Api["AccessVerdict"]): string {
  return VERDICTS[verdict] ?? verdict;
}

/** What opened the trace first, and how many policies did besides; `null` when none did. */
export function openedBy(
  explanation: Pick<Api["AccessExplanation"], "visible" | "policies">,
): { role: string; title: string; more: number } | null {
  const satisfied = explanation.visible
    ? explanation.policies.filter(({ outcome }) => outcome === "satisfied")
    : [];
  const [first] = satisfied;
  return first === undefined ? null : { role: first.role, title: first.title, more: satisfied.length - 1 };
}

/** Policies in the order in which they matter to the reader: what opens, what is broken, what is not satisfied, each as the roles have
 * them. */
export function inOrder(policies: readonly Api["ExplainedPolicy"][]): Api["ExplainedPolicy"][] {
  const of = (outcome: Api["PolicyVerdict"]) => policies.filter((policy) => policy.outcome === outcome);
  return [...of("satisfied"), ...of("broken"), ...of("not_satisfied")];
}

/** What tells spans of a trace apart. */
type Identified = Pick<Trace, "ids" | "spans" | "columns">;

/** Names of spans in explanations are cut to so many characters. */
const MAX_TEXT = 100;

/** The number of the span that an explanation names. Its id may be empty, or that of several spans: start, name and service then tell
 * them apart. */
export function mentionedSpan(trace: Identified, mention: Api["SpanMention"]): number | undefined {
  const numbers = numbersById(trace.ids).get(mention.span_id) ?? [];
  // An empty id names nothing, even where only one span has it: the mentioned one may have arrived since.
  if (numbers.length === 1 && mention.span_id !== "") {
    return numbers[0];
  }
  const begun = instantOfValue(mention.start);
  const { columns } = trace;
  const says = (value: unknown, wanted: string | undefined) =>
    wanted === undefined || Array.from(textOf(value)).slice(0, MAX_TEXT).join("") === wanted;
  // Not loaded: the span arrived later.
  return numbers.find((index) => {
    const span = trace.spans[index];
    const instant = span === undefined ? null : instantOfValue(span[columns.timestamp]);
    return (
      span !== undefined &&
      instant?.seconds === begun?.seconds &&
      instant?.nanos === begun?.nanos &&
      (columns.name === undefined || says(span[columns.name], mention.name)) &&
      (columns.service === undefined || says(span[columns.service], mention.service))
    );
  });
}

const numbersOfIds = new WeakMap<readonly string[], ReadonlyMap<string, readonly number[]>>();

/** The numbers of the spans of each id. Worked out once for a trace: it may have 100,000 spans, and an explanation thousands of
 * mentions. */
function numbersById(ids: readonly string[]): ReadonlyMap<string, readonly number[]> {
  const known = numbersOfIds.get(ids);
  if (known !== undefined) {
    return known;
  }
  const numbers = new Map<string, number[]>();
  ids.forEach((id, index) => {
    const of = numbers.get(id);
    if (of === undefined) {
      numbers.set(id, [index]);
    } else {
      of.push(index);
    }
  });
  numbersOfIds.set(ids, numbers);
  return numbers;
}

/** The spans of the trace that open it, by number, as far as they are named, each with the policies that it satisfies; of spans that
 * cannot be told apart the first. */
export function openingSpans(
  trace: Identified,
  explanation: Pick<Api["AccessExplanation"], "policies"> | undefined,
): ReadonlyMap<number, readonly Api["ExplainedPolicy"][]> {
  const found = new Map<number, Api["ExplainedPolicy"][]>();
  for (const policy of explanation?.policies ?? []) {
    for (const mention of policy.outcome === "satisfied" ? policy.spans : []) {
      const span = mentionedSpan(trace, mention);
      if (span !== undefined) {
        found.set(span, [...(found.get(span) ?? []), policy]);
      }
    }
  }
  return found;
}

/** How many spans satisfy a policy, and how many of these are listed. */
export function countText(count: number, listed: number): string {
  const spans = `${count.toLocaleString("en")} ${count === 1 ? "span satisfies" : "spans satisfy"} it`;
  return listed > 0 && listed < count ? `${spans}; the first ${listed.toLocaleString("en")}:` : spans;
}

/** What a span that comes nearest fulfils of what is demanded: never nothing said as everything. */
export function nearestText(score: number): string {
  const percent = Math.min(99, Math.max(0, Math.floor(score * 100)));
  return `meets ${percent} % of what it asks for`;
}

/** Who can see the trace, of how many. */
export function viewersText({ viewers, users, total_users }: Api["TraceViewers"]): string {
  const count = (of: number) => of.toLocaleString("en");
  return users < total_users
    ? `${count(viewers.length)} of the first ${count(users)} users can see this trace; there are ${count(total_users)}`
    : `${count(viewers.length)} of ${count(total_users)} ${total_users === 1 ? "user" : "users"} can see this trace`;
}
