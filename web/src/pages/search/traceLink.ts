import type { Api } from "../../api/client";

/** What the link to a trace says besides its id: the span that was found. */
export function traceSearch(trace: Api["TraceSummary"]): { span?: string } {
  const [span] = trace.matched_span_ids;
  return span === undefined ? {} : { span };
}
