import { plainJson } from "../lib/json";
import { shellWord } from "../lib/shell";

/** Server name in the configuration of MCP clients. */
const SERVER = "tracewarden";

const urlOf = (origin: string) => `${origin}/mcp`;
const headerOf = (token: string) => `Bearer ${token}`;

/** JSON of a tool call for an MCP client. */
export function toolCall(name: string, given: object): string {
  return plainJson({ name, arguments: given });
}

/** Server configuration for MCP clients. */
export function clientConfiguration(origin: string, token: string): string {
  const server = { type: "http", url: urlOf(origin), headers: { Authorization: headerOf(token) } };
  return JSON.stringify({ mcpServers: { [SERVER]: server } }, null, 2);
}

/** Command that adds the server to Claude Code.
 *
 * Double quotes work in every shell, including those of Windows; tokens consist of letters, digits and `_`. The URL is left
 * unquoted only if no shell can expand any of its characters, unlike brackets or `$` in a host name. */
export function claudeCommand(origin: string, token: string): string {
  const url = urlOf(origin);
  const place = /^[\w:/.-]+$/.test(url) ? url : shellWord(url);
  return `claude mcp add --transport http ${SERVER} ${place} --header "Authorization: ${headerOf(token)}"`;
}
