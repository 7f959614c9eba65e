import { shellWord } from "../../lib/shell";

/** A curl command to try a new API key: a search for the newest traces, or `/me` if the key cannot search.
 *
 * The command does not contain the token, which would stay in the shell's history. */
export function curlLine(origin: string, tools: readonly string[] | null): string {
  const key = '-H "Authorization: Bearer $TRACEWARDEN_API_KEY"';
  if (tools !== null && !tools.includes("svc_query_traces")) {
    return `curl -sS ${shellWord(`${origin}/me`)} ${key}`;
  }
  const body = shellWord('{"view": "summary", "limit": 5}');
  return `curl -sS ${shellWord(`${origin}/traces/query`)} ${key} -H 'Content-Type: application/json' -d ${body}`;
}
