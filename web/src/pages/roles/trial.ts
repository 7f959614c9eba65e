import type { Api } from "../../api/client";
import { writeJson } from "../../lib/json";

/** A span as the service answers with it: columns by name. */
export type Span = Readonly<Record<string, unknown>>;

/** What is needed of a span to try a policy on it, and to tell which one it is. */
export type TrialSpan = {
  readonly id: string;
  readonly name: string;
  readonly service: string;
  /** The columns that policies can name. */
  readonly columns: Span;
};

export type TrialTrace = {
  readonly id: string;
  readonly spans: readonly TrialSpan[];
  /** Spans of it that were left out. */
  readonly more: number;
};

/** Most spans that a trial looks at. */
export const MOST_SPANS = 500;

/** The columns that fields are made of. A nested column's member is a column, or a part of one. */
export function columnsOf(fields: readonly Pick<Api["FieldDescriptor"], "map" | "name">[]): string[] {
  return [...new Set(fields.map(({ map, name }) => (map === "" ? name : map)))];
}

const textOf = (value: unknown): string =>
  typeof value === "string" ? value : value == null ? "" : String(value);

/** Groups spans by trace, as far as the limit goes, each with the named columns only. */
export function tracesOf(
  spans: readonly Span[],
  structure: Pick<Api["SchemaBinding"], "trace_id" | "span_id">,
  display: { readonly name?: string | null; readonly service?: string | null },
  columns: readonly string[],
): TrialTrace[] {
  const kept = new Set(columns.flatMap((column) => [column, column.split(".")[0] ?? column]));
  const traces = new Map<string, { spans: TrialSpan[]; more: number }>();
  let left = MOST_SPANS;
  for (const span of spans) {
    const id = textOf(span[structure.trace_id]);
    const trace = traces.get(id) ?? { spans: [], more: 0 };
    traces.set(id, trace);
    if (left === 0) {
      trace.more += 1;
      continue;
    }
    left -= 1;
    trace.spans.push({
      id: textOf(span[structure.span_id]),
      name: display.name == null ? "" : textOf(span[display.name]),
      service: display.service == null ? "" : textOf(span[display.service]),
      columns: Object.fromEntries(Object.entries(span).filter(([column]) => kept.has(column))),
    });
  }
  return [...traces].map(([id, trace]) => ({ id, ...trace })).filter((trace) => trace.spans.length > 0);
}

/** Below what a body may have, with room for the expression and the user. */
const MOST_BYTES = 700_000;

/** Cuts spans so that each part fits into a request. A span that is too large by itself stands alone. */
export function batches(spans: readonly Span[], mostBytes = MOST_BYTES): Span[][] {
  const found: Span[][] = [];
  let bytes = 0;
  for (const span of spans) {
    const size = new TextEncoder().encode(writeJson(span, 0)).length + 1;
    const last = found.at(-1);
    if (last === undefined || bytes + size > mostBytes) {
      found.push([span]);
      bytes = size;
    } else {
      last.push(span);
      bytes += size;
    }
  }
  return found;
}

/** What one policy is on all spans; or why that is not known. */
export type PolicyTrial = {
  readonly key: string;
  readonly title: string;
  readonly expression: string;
  readonly results: readonly Api["Evaluation"][] | null;
  readonly error: unknown;
};

/** What all policies together are on one span: an error opens nothing, but does not hide that another policy opens. */
export function together(outcomes: readonly Api["PolicyOutcome"][]): Api["PolicyOutcome"] {
  return outcomes.includes("true") ? "true" : outcomes.includes("error") ? "error" : "false";
}

export type TraceOutcome = {
  readonly opened: boolean;
  /** The first span and policy that open it. */
  readonly by: { readonly span: TrialSpan; readonly policy: PolicyTrial } | null;
  readonly outcomes: readonly Api["PolicyOutcome"][];
};

/** What policies do for one trace, whose first span is the one with the given place among all. */
export function outcomeOf(trace: TrialTrace, start: number, policies: readonly PolicyTrial[]): TraceOutcome {
  const outcomes: Api["PolicyOutcome"][] = [];
  let by: TraceOutcome["by"] = null;
  for (const [index, span] of trace.spans.entries()) {
    const known = policies.flatMap((policy) => {
      const outcome = policy.results?.[start + index]?.outcome;
      return outcome === undefined ? [] : [{ policy, outcome }];
    });
    outcomes.push(together(known.map(({ outcome }) => outcome)));
    const policy = known.find(({ outcome }) => outcome === "true")?.policy;
    by ??= policy === undefined ? null : { span, policy };
  }
  return { opened: by !== null, by, outcomes };
}

/** Where the spans of each trace begin among those of all. */
export function startsOf(traces: readonly TrialTrace[]): number[] {
  let at = 0;
  return traces.map(({ spans }) => {
    const start = at;
    at += spans.length;
    return start;
  });
}
