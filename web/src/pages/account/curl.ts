import { quoteShellWord } from "../../lib/shell";

/** A curl command to try a new API key: a search for the newest traces, or `/me` if the key cannot search.
 *
 * The command does not contain the token, which would stay in the shell's history. */
export function curlCommand(origin: string, tools: readonly string[] | null): string {
  const authorization = '-H "Authorization: Bearer $TRACEWARDEN_API_KEY"';
  if (tools !== null && !tools.includes("svc_query_traces")) {
    return `curl -sS ${quoteShellWord(`${origin}/me`)} ${authorization}`;
  }
  const body = quoteShellWord('{"view": "summary", "limit": 5}');
  return `curl -sS ${quoteShellWord(`${origin}/traces/query`)} ${authorization} -H 'Content-Type: application/json' -d ${body}`;
}
