import { toolCall } from "../../api/mcp";
import { plainJson } from "../../lib/json";
import { shellWord } from "../../lib/shell";
import { lengthText, parseLength, type Range } from "./range";
import { bodyOf } from "./run";
import type { Question } from "./state";

/** A curl command for the search. */
export function curlOf(question: Question, origin: string): string {
  return [
    `curl -sS ${shellWord(`${origin}/traces/query`)}`,
    `-H "Authorization: Bearer $TRACEWARDEN_API_KEY"`,
    "-H 'Content-Type: application/json'",
    `--data-raw ${shellWord(plainJson(bodyOf(question, null)))}`,
  ].join(" \\\n  ");
}

/** An MCP tool call for the search.
 *
 * Agents send it later, so that a relative range stays relative. It has no limit, because the tool knows better how many traces
 * fit into an agent's context. */
export function mcpCallOf({ conditions, window }: Question, range: Range): string {
  const length = range.kind === "last" ? parseLength(range.text) : null;
  return toolCall("svc_query_traces", {
    conditions,
    ...(length === null ? window : { last: lengthText(length) }),
  });
}
