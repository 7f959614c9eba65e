import type { Api } from "../../api/client";
import { writeJson } from "../../lib/json";

/** A span in a response of the service: columns by name. */
export type Span = Readonly<Record<string, unknown>>;

/** The parts of a span that are needed to test policies and to identify it. */
export type TrialSpan = {
  readonly id: string;
  readonly name: string;
  readonly service: string;
  /** The columns that policies can use. */
  readonly columns: Span;
};

export type TrialTrace = {
  readonly id: string;
  readonly spans: readonly TrialSpan[];
  /** Number of omitted spans of the trace. */
  readonly more: number;
};

/** Maximum number of spans in a trial. */
export const MOST_SPANS = 500;

/** The columns of the fields. A member of a nested column is a column itself, or part of one. */
export function columnsOf(fields: readonly Pick<Api["FieldDescriptor"], "map" | "name">[]): string[] {
  return [...new Set(fields.map(({ map, name }) => (map === "" ? name : map)))];
}

const textOf = (value: unknown): string =>
  typeof value === "string" ? value : value == null ? "" : String(value);

/** Groups spans by trace, up to the limit, each with the named columns only. */
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

/** Below the service's limit for request bodies, with space for the expression and the user. */
const MOST_BYTES = 700_000;

/** Splits spans into parts that fit into a request. A span that is too large is a separate part. */
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

/** Results of a policy for all spans, or the error. */
export type PolicyTrial = {
  readonly key: string;
  readonly title: string;
  readonly expression: string;
  readonly results: readonly Api["Evaluation"][] | null;
  readonly error: unknown;
};

/** Combined outcome of all policies for a span: an error grants no access, but does not prevent another policy from granting
 * it. */
export function together(outcomes: readonly Api["PolicyOutcome"][]): Api["PolicyOutcome"] {
  return outcomes.includes("true") ? "true" : outcomes.includes("error") ? "error" : "false";
}

export type TraceOutcome = {
  readonly opened: boolean;
  /** The first matching span, with its policy. */
  readonly by: { readonly span: TrialSpan; readonly policy: PolicyTrial } | null;
  readonly outcomes: readonly Api["PolicyOutcome"][];
};

/** Outcome of the policies for a trace. `start` is the index of its first span among all spans. */
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

/** Index of each trace's first span among all spans. */
export function startsOf(traces: readonly TrialTrace[]): number[] {
  let at = 0;
  return traces.map(({ spans }) => {
    const start = at;
    at += spans.length;
    return start;
  });
}
