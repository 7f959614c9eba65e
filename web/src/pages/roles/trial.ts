import type { Api } from "../../api/client";
import { writeJson } from "../../lib/json";
import { type RawSpan, textOf } from "../../trace/columns";

/** The parts of a span that are needed to test policies and to identify it. */
export type TrialSpan = {
  readonly id: string;
  readonly name: string;
  readonly service: string;
  /** The columns that policies can use. */
  readonly columns: RawSpan;
};

export type TrialTrace = {
  readonly id: string;
  readonly spans: readonly TrialSpan[];
  /** Number of omitted spans of the trace. */
  readonly omittedSpans: number;
};

/** Maximum number of spans in a trial. */
export const MAX_SPANS = 500;

/** The columns of the fields. A member of a nested column is a column itself, or part of one. */
export function columnsOf(fields: readonly Pick<Api["FieldDescriptor"], "map" | "name">[]): string[] {
  return [...new Set(fields.map(({ map, name }) => (map === "" ? name : map)))];
}

/** Groups spans by trace, up to the limit, each with the named columns only. */
export function groupByTrace(
  spans: readonly RawSpan[],
  structure: Pick<Api["SchemaBinding"], "trace_id" | "span_id">,
  display: { readonly name?: string | null; readonly service?: string | null },
  columns: readonly string[],
): TrialTrace[] {
  const keptColumns = new Set(columns.flatMap((column) => [column, column.split(".")[0] ?? column]));
  const traces = new Map<string, { spans: TrialSpan[]; omittedSpans: number }>();
  let remaining = MAX_SPANS;
  for (const span of spans) {
    const id = textOf(span[structure.trace_id]);
    const trace = traces.get(id) ?? { spans: [], omittedSpans: 0 };
    traces.set(id, trace);
    if (remaining === 0) {
      trace.omittedSpans += 1;
      continue;
    }
    remaining -= 1;
    trace.spans.push({
      id: textOf(span[structure.span_id]),
      name: display.name == null ? "" : textOf(span[display.name]),
      service: display.service == null ? "" : textOf(span[display.service]),
      columns: Object.fromEntries(Object.entries(span).filter(([column]) => keptColumns.has(column))),
    });
  }
  return [...traces].map(([id, trace]) => ({ id, ...trace })).filter((trace) => trace.spans.length > 0);
}

/** Below the service's limit for request bodies, with space for the expression and the user. */
const MAX_BYTES = 700_000;

/** Splits spans into parts that fit into a request. A span that is too large is a separate part. */
export function splitBatches(spans: readonly RawSpan[], maxBytes = MAX_BYTES): RawSpan[][] {
  const batches: RawSpan[][] = [];
  let bytes = 0;
  for (const span of spans) {
    const size = new TextEncoder().encode(writeJson(span, 0)).length + 1;
    const last = batches.at(-1);
    if (last === undefined || bytes + size > maxBytes) {
      batches.push([span]);
      bytes = size;
    } else {
      last.push(span);
      bytes += size;
    }
  }
  return batches;
}

/** Results of a policy for all spans, or the error. */
export type PolicyTrialResult = {
  readonly key: string;
  readonly title: string;
  readonly expression: string;
  readonly results: readonly Api["Evaluation"][] | null;
  readonly error: unknown;
};

/** Combined outcome of all policies for a span: an error grants no access, but does not prevent another policy from granting
 * it. */
export function combineOutcomes(outcomes: readonly Api["PolicyOutcome"][]): Api["PolicyOutcome"] {
  return outcomes.includes("true") ? "true" : outcomes.includes("error") ? "error" : "false";
}

export type TraceOutcome = {
  readonly visible: boolean;
  /** The first matching span, with its policy. */
  readonly grantedBy: { readonly span: TrialSpan; readonly policy: PolicyTrialResult } | null;
  readonly outcomes: readonly Api["PolicyOutcome"][];
};

/** Outcome of the policies for a trace. `start` is the index of its first span among all spans. */
export function outcomeOf(
  trace: TrialTrace,
  start: number,
  policies: readonly PolicyTrialResult[],
): TraceOutcome {
  const outcomes: Api["PolicyOutcome"][] = [];
  let grantedBy: TraceOutcome["grantedBy"] = null;
  for (const [index, span] of trace.spans.entries()) {
    const knownOutcomes = policies.flatMap((policy) => {
      const outcome = policy.results?.[start + index]?.outcome;
      return outcome === undefined ? [] : [{ policy, outcome }];
    });
    outcomes.push(combineOutcomes(knownOutcomes.map(({ outcome }) => outcome)));
    const policy = knownOutcomes.find(({ outcome }) => outcome === "true")?.policy;
    grantedBy ??= policy === undefined ? null : { span, policy };
  }
  return { visible: grantedBy !== null, grantedBy, outcomes };
}

/** Index of each trace's first span among all spans. */
export function spanOffsets(traces: readonly TrialTrace[]): number[] {
  let offset = 0;
  return traces.map(({ spans }) => {
    const start = offset;
    offset += spans.length;
    return start;
  });
}
