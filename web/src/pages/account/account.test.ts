import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { claudeCommand, clientConfiguration } from "../../api/mcp";
import { curlCommand } from "./curl";
import { expiryOf } from "./expiry";
import { permitsMcp, TOOLS } from "./tools";

describe("the expiry of a key", () => {
  const now = new Date(2026, 10, 22, 12);
  it("is a number of days from now, never, or the end of a day", () => {
    expect(expiryOf("7", "", now)).toEqual({ at: new Date(2026, 10, 29, 12).toISOString() });
    expect(expiryOf("never", "", now)).toEqual({ at: null });
    expect(expiryOf("date", "2026-11-22", now)).toEqual({ at: new Date(2026, 10, 23).toISOString() });
  });

  it("is rejected if it is in the past or missing", () => {
    expect(expiryOf("date", "2026-11-21", now)).toHaveProperty("error");
    expect(expiryOf("date", "", now)).toHaveProperty("error");
  });
});

describe("the command to test a key", () => {
  it("searches if the key may search, and requests `/me` otherwise", () => {
    expect(curlCommand("https://t.example", null)).toBe(
      `curl -sS 'https://t.example/traces/query' -H "Authorization: Bearer $TRACEWARDEN_API_KEY" -H 'Content-Type: application/json' -d '{"view": "summary", "limit": 5}'`,
    );
    expect(curlCommand("https://t.example", ["svc_get_trace"])).toBe(
      `curl -sS 'https://t.example/me' -H "Authorization: Bearer $TRACEWARDEN_API_KEY"`,
    );
  });
});

describe("the configuration of MCP clients", () => {
  const origin = "https://t.example:8443";

  it("contains the URL and the token", () => {
    expect(JSON.parse(clientConfiguration(origin, "twk_secret"))).toEqual({
      mcpServers: {
        tracewarden: {
          type: "http",
          url: "https://t.example:8443/mcp",
          headers: { Authorization: "Bearer twk_secret" },
        },
      },
    });
  });

  it("is a command whose words the shell passes unchanged", () => {
    for (const commandOf of [origin, "http://[::1]:8080", "http://$(echo harm).example", "http://a'b"]) {
      const script = `claude() { printf '%s\\n' "$@"; }\n${claudeCommand(commandOf, "twk_secret")}`;
      expect(execFileSync("sh", ["-c", script]).toString().trim().split("\n")).toEqual([
        ...["mcp", "add", "--transport", "http", "tracewarden", `${commandOf}/mcp`],
        ...["--header", "Authorization: Bearer twk_secret"],
      ]);
    }
    // In the documented form, also for shells without single quotes.
    expect(claudeCommand(origin, "twk_secret")).toBe(
      'claude mcp add --transport http tracewarden https://t.example:8443/mcp --header "Authorization: Bearer twk_secret"',
    );
  });

  it("is offered for a key with any known tool", () => {
    expect(permitsMcp(null)).toBe(true);
    for (const { name } of TOOLS) {
      expect([name, permitsMcp([name])]).toEqual([name, true]);
    }
    expect(permitsMcp([])).toBe(false);
    expect(permitsMcp(["of_a_later_version"])).toBe(false);
  });
});
