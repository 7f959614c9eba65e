/** A tool call, as the pages copy it. */
export interface ToolCall {
  name: string;
  arguments: Record<string, unknown>;
}

/** A server entry in the configuration of MCP clients. */
export interface McpServer {
  url: string;
  headers: Record<string, string>;
}

const PROTOCOL_VERSION = "2025-11-25";

/** Client information, as the audit log records it. */
export const CLIENT = { name: "browser-test", version: "1.0" };

/** Calls a tool in the way of an MCP client, and returns the structured content of the result. */
export async function callTool<T>(server: McpServer, call: ToolCall, client = CLIENT): Promise<T> {
  const initializeParams = { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo: client };
  const { headers } = await sendMessage(server, "initialize", initializeParams);
  const session = headers.get("mcp-session-id");
  const { result } = await sendMessage(server, "tools/call", call, {
    "mcp-protocol-version": PROTOCOL_VERSION,
    ...(session === null ? {} : { "mcp-session-id": session }),
  });
  const { isError, structuredContent } = result as { isError?: boolean; structuredContent?: unknown };
  if (isError === true) {
    throw new Error(`${call.name}: ${JSON.stringify(result)}`);
  }
  return structuredContent as T;
}

/** Sends one message. Its response is JSON or the only event of a stream. */
async function sendMessage(
  { url, headers }: McpServer,
  method: string,
  params: object,
  extraHeaders: Record<string, string> = {},
): Promise<{ headers: Headers; result: unknown }> {
  const response = await fetch(url, {
    method: "POST",
    headers: {
      ...headers,
      ...extraHeaders,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const text = await response.text();
  const stream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
  const body = stream ? [...text.matchAll(/^data: ?(\{.*)$/gm)].at(-1)?.[1] : text;
  const message = response.ok ? (JSON.parse(body ?? "null") as { result?: unknown } | null) : null;
  if (message?.result === undefined) {
    throw new Error(`${method} at ${url}: ${response.status} ${text}`);
  }
  return { headers: response.headers, result: message.result };
}
