import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { asciiJson, LosslessNumber, parseJson } from "../../lib/json";
import { quoteShellWord } from "../../lib/shell";
import { absoluteLink, curlCommand, mcpCall } from "./copyFormats";

const window = { from: "2026-11-21T23:00:00Z", to: "2026-11-22T00:00:00Z" };

describe("a search as a command", () => {
  it("sends the same body", () => {
    const filter = {
      conditions: [{ name: "ServiceName", op: "eq", value: "check'out" }],
      none: [{ name: "SpanName", op: "exists" }],
    };
    const request = { filter, order: "errors", window } as const;
    const command = curlCommand(request, "https://traces.example.com");
    const out = execFileSync("sh", ["-c", `curl() { for word; do :; done; printf %s "$word"; }\n${command}`]);
    expect(JSON.parse(out.toString())).toEqual({
      filter,
      ...window,
      order: "most_errors",
      view: "summary",
      limit: 100,
    });
    expect(command).toContain("$TRACEWARDEN_API_KEY");
  });

  it("never executes a value", () => {
    for (const value of ["'; echo harm; '", "$(echo harm)", "`echo harm`", "\n echo harm", "\\", "\\'"]) {
      const out = execFileSync("sh", ["-c", `printf %s ${quoteShellWord(asciiJson(value))}`]).toString();
      expect(JSON.parse(out)).toBe(value);
    }
  });
});

describe("a search as a link", () => {
  it("keeps its time range and the rest of the search", () => {
    const request = { filter: { conditions: [] }, order: "newest", window } as const;
    for (const range of ["last=6h", "from=2026-01-01T00%3A00%3A00Z&to=2026-01-02T00%3A00%3A00Z", ""]) {
      const link = new URL(absoluteLink(`https://t.example.com/ui/search?where=a+eq+b&${range}`, request));
      expect(Object.fromEntries(link.searchParams)).toEqual({ where: "a eq b", ...window });
    }
  });
});

describe("a search as a tool call", () => {
  const absolute = { kind: "absolute", ...window } as const;

  it("contains the conditions and the times", () => {
    const conditions = [
      { map: "SpanAttributes", name: "tenant.id", op: "in", values: ["a", "b"] },
      { name: "Duration", op: "gt", value: 100_000_000 },
    ];
    expect(JSON.parse(mcpCall({ filter: { conditions }, order: "newest", window }, absolute))).toEqual({
      name: "svc_query_traces",
      arguments: { conditions, ...window },
    });
  });

  it.each([
    ["15m", "15m"],
    ["2h", "2h"],
    ["24h", "1d"],
    ["1h 30m", "90m"],
    ["1.5H", "90m"],
    ["1w", "7d"],
    ["90s", "90s"],
  ])("keeps the relative range %s as %s", (text, last) => {
    expect(
      JSON.parse(mcpCall({ filter: { conditions: [] }, order: "longest", window }, { kind: "last", text })),
    ).toEqual({
      name: "svc_query_traces",
      arguments: { conditions: [], order: "longest", last },
    });
  });

  it("escapes invisible characters, and keeps large integers", () => {
    const conditions = [
      { name: "SpanName", op: "eq", value: "\u202ea\n" },
      { name: "Timestamp", op: "gte", value: new LosslessNumber("1732233600123456789") },
    ];
    const call = mcpCall({ filter: { conditions }, order: "newest", window }, absolute);
    expect(call).toMatch(/^[\x20-\x7e]+$/);
    expect(call).toContain('"value":1732233600123456789}');
    expect(parseJson(call)).toMatchObject({ arguments: { conditions } });
  });
});
