import type { Api } from "../../api/client";

type Trace = Api["TraceSummary"];

/** Orders of the loaded results. Pages arrive in the service's order, newest first. */
export const SORTS = {
  newest: "Newest first",
  longest: "Longest first",
  errors: "Most errors first",
  spans: "Most spans first",
} as const;

export type Sort = keyof typeof SORTS;

export function isSort(text: string): text is Sort {
  return Object.hasOwn(SORTS, text);
}

/** Sorts traces. Ties keep the service's order. */
export function sortTraces(traces: readonly Trace[], sort: Sort): readonly Trace[] {
  const sortKey = {
    newest: null,
    longest: (trace: Trace) => trace.duration_nanos ?? -1,
    errors: (trace: Trace) => trace.error_count ?? -1,
    spans: (trace: Trace) => trace.span_count,
  }[sort];
  return sortKey === null ? traces : [...traces].sort((a, b) => sortKey(b) - sortKey(a));
}
