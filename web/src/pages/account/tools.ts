/** The tools that an API key can be scoped to, in the usual order of use: the name in stored keys and in MCP, and whether the REST
 * API has a route. */
export const TOOLS: readonly { name: string; description: string; rest: boolean }[] = [
  { name: "svc_filter_schema", description: "list the searchable fields", rest: true },
  { name: "svc_field_values", description: "list values of a field", rest: true },
  { name: "svc_query_traces", description: "search traces", rest: true },
  { name: "svc_get_trace", description: "read one trace", rest: true },
  { name: "svc_get_spans", description: "read some spans of a trace in full", rest: false },
  { name: "svc_critical_path", description: "show where a trace spent its time", rest: false },
  { name: "svc_compare_traces", description: "show how two traces differ", rest: false },
  {
    name: "svc_trace_stats",
    description: "count traces and spans, with error rates and durations",
    rest: false,
  },
  { name: "svc_explain_access", description: "explain your access, and why you can see a trace", rest: true },
];

/** Whether MCP clients can call any tool with a key that is scoped to `tools`; `null` permits all tools. */
export function permitsMcp(tools: readonly string[] | null): boolean {
  return tools === null || TOOLS.some(({ name }) => tools.includes(name));
}
