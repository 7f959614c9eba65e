import type { Api } from "../../api/client";

/** Parameters of a link to a trace: the matching span. */
export function traceLinkSearch(trace: Api["TraceSummary"]): { span?: string } {
  const [span] = trace.matched_span_ids;
  return span === undefined ? {} : { span };
}
