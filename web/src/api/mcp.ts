import { asciiJson } from "../lib/json";
import { quoteShellWord } from "../lib/shell";

/** Server name in the configuration of MCP clients. */
const SERVER_NAME = "tracewarden";

const urlOf = (origin: string) => `${origin}/mcp`;
const authorizationOf = (token: string) => `Bearer ${token}`;

/** JSON of a tool call for an MCP client. */
export function toolCall(name: string, args: object): string {
  return asciiJson({ name, arguments: args });
}

/** Server configuration for MCP clients. */
export function clientConfiguration(origin: string, token: string): string {
  const server = { type: "http", url: urlOf(origin), headers: { Authorization: authorizationOf(token) } };
  return JSON.stringify({ mcpServers: { [SERVER_NAME]: server } }, null, 2);
}

/** Command that adds the server to Claude Code.
 *
 * Double quotes work in every shell, including those of Windows; tokens consist of letters, digits and `_`. The URL is left
 * unquoted only if no shell can expand any of its characters, unlike brackets or `$` in a host name. */
export function claudeCommand(origin: string, token: string): string {
  const url = urlOf(origin);
  const urlWord = /^[\w:/.-]+$/.test(url) ? url : quoteShellWord(url);
  return `claude mcp add --transport http ${SERVER_NAME} ${urlWord} --header "Authorization: ${authorizationOf(token)}"`;
}
