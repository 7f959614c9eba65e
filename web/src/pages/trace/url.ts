/** What the address says of a trace page. */
export type TraceUrl = Record<string, unknown>;

export function traceOfUrl(search: Record<string, unknown>): TraceUrl {
  return search;
}
