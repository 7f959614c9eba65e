import { describe, expect, it } from "vitest";
import { formatUtc, parseLength, parseRange, parseTime, rangeLabel, widerRange, windowOf } from "./range";
import { resolveSearch } from "./resolveSearch";
import { columnsOf, parseSearchUrl, rangeError, rangeOf, withRange } from "./url";

const NOW = new Date("2026-11-22T00:30:00.500Z");

describe("the URL of the search page", () => {
  it("without parameters means the last hour", () => {
    expect(parseSearchUrl({})).toEqual({});
    expect(rangeOf({})).toEqual({ kind: "last", text: "1h" });
  });

  it("keeps a whole search", () => {
    const url = {
      where: "ServiceName eq checkout",
      errors: true,
      last: "6h",
      sort: "longest",
      columns: "start.id",
      chart: "off",
    };
    expect(parseSearchUrl(url)).toEqual(url);
    expect(columnsOf(parseSearchUrl(url))).toEqual(["start", "id"]);
  });

  it("prefers an absolute range to a relative one", () => {
    const from = "2026-11-21T09:00:00Z";
    const to = "2026-11-21T10:00:00Z";
    expect(parseSearchUrl({ from, to, last: "6h" })).toEqual({ from, to });
    expect(withRange({ from, to }, { kind: "last", text: "6h" })).toEqual({ last: "6h" });
    expect(withRange({ last: "6h" }, { kind: "absolute", from, to })).toEqual({ from, to });
  });

  it("ignores invalid parameters", () => {
    const invalid = [
      { where: 5, sort: "best", chart: 1, errors: "maybe" },
      { where: {}, last: [], from: null, to: {}, columns: ["a"], sort: "__proto__" },
      { where: "x".repeat(30_000), columns: {} },
    ];
    expect(invalid.map(parseSearchUrl)).toEqual([{ where: "5" }, {}, {}]);
  });

  it.each([
    [{ last: "soon" }, "“soon” in the link is not a length"],
    [{ last: 5 }, "“5” in the link is not a length"],
    [{ last: "99999d" }, "is not a length"],
    [{ from: "yesterday", to: "2026-11-21T10:00:00Z" }, "“yesterday” in the link is not a time"],
    [{ from: "2026-11-21T10:00:00Z", to: "tomorrow" }, "“tomorrow” in the link is not a time"],
    [{ from: "2026-11-21T10:00:00Z", to: "2026-11-21T09:00:00Z" }, "must end after it starts"],
    [{ from: "2026-11-21T10:00:00Z", last: "6h" }, "only a start"],
    [{ to: "2026-11-21T10:00:00Z" }, "only an end"],
  ])("reports the invalid range %j and searches nothing", (search, error) => {
    const url = parseSearchUrl(search);
    expect(rangeError(url)).toContain(error);
    expect(rangeOf(url)).toEqual({ kind: "last", text: "1h" });
    expect(resolveSearch(url, [], 100)).toMatchObject({ filter: null, error: rangeError(url) });
    expect(rangeError(withRange(url, rangeOf(url)))).toBeNull();
  });

  it("accepts valid ranges", () => {
    for (const search of [{}, { last: "6h" }, { from: "2026-11-21T09:00:00Z", to: "2026-11-21T10:00:00Z" }]) {
      expect(rangeError(parseSearchUrl(search))).toBeNull();
      expect(resolveSearch(search, [], 100).filter).toEqual({ conditions: [] });
    }
  });

  it("can have no optional columns", () => {
    expect(columnsOf(parseSearchUrl({ columns: "" }))).toEqual([]);
    expect(columnsOf(parseSearchUrl({ columns: "nothing,id,__proto__" }))).toEqual(["id"]);
  });
});

describe("relative ranges", () => {
  it.each([
    ["90m", 5400],
    ["1h 30m", 5400],
    ["1.5h", 5400],
    [" 7D ", 604_800],
    ["2w", 1_209_600],
  ])("%s", (text, seconds) => expect(parseLength(text)).toBe(seconds));

  it.each(["", "soon", "5", "-5m", "0s", "5y", "99999d"])("%s is invalid", (text) =>
    expect(parseLength(text)).toBeNull(),
  );

  it("are fixed at the start of the search", () => {
    expect(windowOf({ kind: "last", text: "15m" }, NOW)).toEqual({
      from: "2026-11-22T00:15:00.5Z",
      to: "2026-11-22T00:30:00.5Z",
    });
  });

  it("are widened to the next preset", () => {
    expect(widerRange({ kind: "last", text: "1h" })).toEqual({ kind: "last", text: "24h" });
    expect(widerRange({ kind: "last", text: "30d" })).toBeNull();
    expect(
      widerRange({ kind: "absolute", from: "2026-11-21T09:00:00Z", to: "2026-11-21T09:10:00Z" }),
    ).toEqual({
      kind: "absolute",
      from: "2026-11-21T08:30:00Z",
      to: "2026-11-21T09:40:00Z",
    });
  });
});

describe("typed times", () => {
  const utc = (text: string) => {
    const parse = parseTime(text, "utc", NOW);
    return parse === null ? null : formatUtc(parse);
  };
  it.each([
    ["now", "2026-11-22T00:30:00.5Z"],
    ["-30m", "2026-11-22T00:00:00.5Z"],
    ["now-1h", "2026-11-21T23:30:00.5Z"],
    ["9:05", "2026-11-22T09:05:00Z"],
    ["2026-11-21", "2026-11-21T00:00:00Z"],
    ["2026-11-21 09:30", "2026-11-21T09:30:00Z"],
    ["2026-11-21 09:30:15.123456789", "2026-11-21T09:30:15.123456789Z"],
    ["2026-11-21T09:30:15+02:00", "2026-11-21T07:30:15Z"],
  ])("%s", (text, expected) => expect(utc(text)).toBe(expected));

  it.each(["", "noon", "2026-02-30", "25:00", "2026-11-21 09:61", "2026-13-01"])("%s is invalid", (text) =>
    expect(utc(text)).toBeNull(),
  );

  it("in the local zone are local times", () => {
    const parse = parseTime("2026-07-01 12:00", "local", NOW);
    expect(parse?.seconds).toBe(new Date(2026, 6, 1, 12).getTime() / 1000);
  });

  it("form a range, or give an error", () => {
    expect(parseRange("09:00", "10:00", "utc", NOW)).toMatchObject({ from: "2026-11-22T09:00:00Z" });
    expect(parseRange("10:00", "09:00", "utc", NOW)).toMatchObject({
      errors: { to: expect.stringContaining("after the start") },
    });
    expect(parseRange("noon", "", "utc", NOW)).toEqual({
      errors: { from: expect.stringContaining("“noon” is not a time") },
    });
    expect(parseRange("09:00", "never", "utc", NOW)).toEqual({
      errors: { to: expect.stringContaining("“never” is not a time") },
    });
    expect(parseRange("", "never", "utc", NOW)).toEqual({
      errors: { from: expect.stringContaining("Enter a time"), to: expect.stringContaining("“never”") },
    });
  });

  it("have a short label", () => {
    const range = { kind: "absolute", from: "2026-11-21T09:00:00Z", to: "2026-11-21T09:30:15Z" } as const;
    expect(rangeLabel(range, "utc")).toBe("2026-11-21 09:00 – 09:30:15");
    expect(rangeLabel({ kind: "last", text: "6h" }, "utc")).toBe("last 6 h");
  });
});
