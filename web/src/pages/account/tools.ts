/** A tool that an API key can be scoped to. */
export type Tool = {
  /** The tool's name in stored keys and in MCP. */
  readonly name: string;
  readonly about: string;
  /** Whether the REST API has a route for the tool. */
  readonly rest: boolean;
};

/** All tools, in the usual order of use. */
export const TOOLS: readonly Tool[] = [
  { name: "svc_filter_schema", about: "list the searchable fields", rest: true },
  { name: "svc_field_values", about: "list values of a field", rest: true },
  { name: "svc_query_traces", about: "search traces", rest: true },
  { name: "svc_get_trace", about: "read one trace", rest: true },
  { name: "svc_get_spans", about: "read some spans of a trace in full", rest: false },
  { name: "svc_critical_path", about: "show where a trace spent its time", rest: false },
  { name: "svc_compare_traces", about: "show how two traces differ", rest: false },
  { name: "svc_trace_stats", about: "count traces and spans, with error rates and durations", rest: false },
  { name: "svc_explain_access", about: "explain your access, and why you can see a trace", rest: true },
];

/** Whether MCP clients can call any tool with a key that is scoped to `tools`; `null` permits all tools. */
export function servesMcp(tools: readonly string[] | null): boolean {
  return tools === null || TOOLS.some(({ name }) => tools.includes(name));
}
