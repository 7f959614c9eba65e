/** A tool that a key can be narrowed to. */
export type Tool = {
  /** As keys are stored with it, and as agents call it. */
  readonly name: string;
  readonly about: string;
  /** Whether REST has a route for it, too. */
  readonly rest: boolean;
};

/** Every tool that there is, in the order in which one comes to need them. */
export const TOOLS: readonly Tool[] = [
  { name: "svc_filter_schema", about: "list the fields of filters", rest: true },
  { name: "svc_field_values", about: "list values of a field", rest: true },
  { name: "svc_query_traces", about: "search traces", rest: true },
  { name: "svc_get_trace", about: "open one trace", rest: true },
  { name: "svc_get_spans", about: "read some spans of a trace in full", rest: false },
  { name: "svc_critical_path", about: "what a trace spent its time on", rest: false },
  { name: "svc_compare_traces", about: "how two traces differ", rest: false },
  { name: "svc_trace_stats", about: "count traces and spans, with error rates and durations", rest: false },
  { name: "svc_explain_access", about: "what is open to you, and why a trace is", rest: true },
];

/** Whether a key of these tools has any that MCP clients can call; `null` is every tool. */
export function servesMcp(tools: readonly string[] | null): boolean {
  return tools === null || TOOLS.some(({ name }) => tools.includes(name));
}
