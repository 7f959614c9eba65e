import { toolCall } from "../../api/mcp";
import { asciiJson } from "../../lib/json";
import { quoteShellWord } from "../../lib/shell";
import { orderArgument, requestBody } from "./fetchPage";
import { lengthText, parseLength, type Range } from "./range";
import type { SearchRequest } from "./searchState";

/** A curl command for the search. */
export function curlCommand(request: SearchRequest, origin: string): string {
  return [
    `curl -sS ${quoteShellWord(`${origin}/traces/query`)}`,
    `-H "Authorization: Bearer $TRACEWARDEN_API_KEY"`,
    "-H 'Content-Type: application/json'",
    `--data-raw ${quoteShellWord(asciiJson(requestBody(request, null)))}`,
  ].join(" \\\n  ");
}

/** A link to the search in the same time range, also when it is opened later. */
export function absoluteLink(href: string, { window }: SearchRequest): string {
  const url = new URL(href);
  url.searchParams.delete("last");
  for (const [name, time] of Object.entries(window)) {
    url.searchParams.set(name, time);
  }
  return url.href;
}

/** An MCP tool call for the search.
 *
 * Agents send it later, so that a relative range stays relative. It has no limit, because the tool knows better how many traces
 * fit into an agent's context. */
export function mcpCall({ filter, order, window }: SearchRequest, range: Range): string {
  const length = range.kind === "last" ? parseLength(range.text) : null;
  return toolCall("svc_query_traces", {
    ...filter,
    ...orderArgument(order),
    ...(length === null ? window : { last: lengthText(length) }),
  });
}
