import { describe, expect, it } from "vitest";
import { curlLine } from "./curl";
import { expiryOf } from "./expiry";

describe("when a key expires", () => {
  const now = new Date(2026, 10, 22, 12);
  it("is so many days from now, never, or the end of a day", () => {
    expect(expiryOf("7", "", now)).toEqual({ at: new Date(2026, 10, 29, 12).toISOString() });
    expect(expiryOf("never", "", now)).toEqual({ at: null });
    expect(expiryOf("date", "2026-11-22", now)).toEqual({ at: new Date(2026, 10, 23).toISOString() });
  });

  it("is not in the past, and not nothing", () => {
    expect(expiryOf("date", "2026-11-21", now)).toHaveProperty("problem");
    expect(expiryOf("date", "", now)).toHaveProperty("problem");
  });
});

describe("the line to try a key", () => {
  it("searches where the key may, and asks who it is where not", () => {
    expect(curlLine("https://t.example", null)).toBe(
      `curl -sS 'https://t.example/traces/query' -H "Authorization: Bearer $TRACEWARDEN_API_KEY" -H 'Content-Type: application/json' -d '{"view": "summary", "limit": 5}'`,
    );
    expect(curlLine("https://t.example", ["svc_get_trace"])).toBe(
      `curl -sS 'https://t.example/me' -H "Authorization: Bearer $TRACEWARDEN_API_KEY"`,
    );
  });
});
