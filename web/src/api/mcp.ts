import { plainJson } from "../lib/json";
import { shellWord } from "../lib/shell";

/** As clients list the service. */
const SERVER = "tracewarden";

const urlOf = (origin: string) => `${origin}/mcp`;
const headerOf = (token: string) => `Bearer ${token}`;

/** What an MCP client is told to call a tool. */
export function toolCall(name: string, given: object): string {
  return plainJson({ name, arguments: given });
}

/** What MCP clients take into their file of servers. */
export function clientConfiguration(origin: string, token: string): string {
  const server = { type: "http", url: urlOf(origin), headers: { Authorization: headerOf(token) } };
  return JSON.stringify({ mcpServers: { [SERVER]: server } }, null, 2);
}

/** The command that does the same for Claude Code.
 *
 * Double quotes serve every shell, those of Windows too; tokens are letters, digits and `_`. Of the address only what
 * no shell expands stays without quotes, in which brackets or `$` of a host's name end up otherwise. */
export function claudeCommand(origin: string, token: string): string {
  const url = urlOf(origin);
  const place = /^[\w:/.-]+$/.test(url) ? url : shellWord(url);
  return `claude mcp add --transport http ${SERVER} ${place} --header "Authorization: ${headerOf(token)}"`;
}
