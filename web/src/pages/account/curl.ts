/** A shell's single-quoted word. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A command that shows what a new key can do: who it acts for, or the newest traces where it may search. */
export function curlLine(origin: string, token: string, tools: readonly string[] | null): string {
  const key = `-H ${quoted(`Authorization: Bearer ${token}`)}`;
  if (tools !== null && !tools.includes("svc_query_traces")) {
    return `curl -sS ${origin}/me ${key}`;
  }
  const body = quoted('{"view": "summary", "limit": 5}');
  return `curl -sS ${origin}/traces/query ${key} -H 'Content-Type: application/json' -d ${body}`;
}
