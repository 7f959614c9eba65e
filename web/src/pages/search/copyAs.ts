import { toolCall } from "../../api/mcp";
import { plainJson } from "../../lib/json";
import { shellWord } from "../../lib/shell";
import { lengthText, parseLength, type Range } from "./range";
import { bodyOf } from "./run";
import type { Question } from "./state";

/** The command that asks the same of the service. */
export function curlOf(question: Question, origin: string): string {
  return [
    `curl -sS ${shellWord(`${origin}/traces/query`)}`,
    `-H "Authorization: Bearer $TRACEWARDEN_API_KEY"`,
    "-H 'Content-Type: application/json'",
    `--data-raw ${shellWord(plainJson(bodyOf(question, null)))}`,
  ].join(" \\\n  ");
}

/** The call that asks the same of the MCP interface.
 *
 * Agents ask later than the page did, so that a range back from now stays one. It has no limit: how many traces fit
 * into an agent's context, the tool knows better than the page. */
export function mcpCallOf({ conditions, window }: Question, range: Range): string {
  const length = range.kind === "last" ? parseLength(range.text) : null;
  return toolCall("svc_query_traces", {
    conditions,
    ...(length === null ? window : { last: lengthText(length) }),
  });
}
