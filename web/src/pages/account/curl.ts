import { shellWord } from "../../lib/shell";

/** A command that shows what a new key can do: who it acts for, or the newest traces where it may search.
 *
 * The token itself is not in it: it would stay in the shell's history. */
export function curlLine(origin: string, tools: readonly string[] | null): string {
  const key = '-H "Authorization: Bearer $TRACEWARDEN_API_KEY"';
  if (tools !== null && !tools.includes("svc_query_traces")) {
    return `curl -sS ${shellWord(`${origin}/me`)} ${key}`;
  }
  const body = shellWord('{"view": "summary", "limit": 5}');
  return `curl -sS ${shellWord(`${origin}/traces/query`)} ${key} -H 'Content-Type: application/json' -d ${body}`;
}
