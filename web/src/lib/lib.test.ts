import { describe, expect, it, vi } from "vitest";
import { formatDuration, parseDuration } from "./duration";
import { asciiJson, LosslessNumber, parseJson, writeJson } from "./json";
import { sanitize } from "./sanitize";
import { formatInstant, nanosBetween, parseInstant } from "./time";

describe("times", () => {
  it("keep nanoseconds", () => {
    const [from, to] = [
      parseInstant("2026-11-21T23:59:59.999999999Z"),
      parseInstant("2026-11-22T00:00:00.000000001Z"),
    ];
    if (from === null || to === null) throw new Error("not read");
    expect(nanosBetween(from, to)).toBe(2);
    expect(formatInstant(from, "utc", 9)).toBe("2026-11-21 23:59:59.999999999");
  });

  it("are parsed with a zone and without, and rejected if invalid", () => {
    expect(parseInstant("2026-11-21T01:00:00+02:00")).toEqual(parseInstant("2026-11-20 23:00:00"));
    expect(parseInstant("yesterday")).toBeNull();
    expect(parseInstant("2026-13-41T01:00:00Z")).toBeNull();
  });

  it("are shown with the local offset of their date, not of today", () => {
    vi.spyOn(Date.prototype, "getTimezoneOffset").mockImplementation(function (this: Date) {
      const isSummer = this.getUTCMonth() >= 3 && this.getUTCMonth() < 9;
      return isSummer ? -120 : -60;
    });
    const shown = ["2026-01-15T12:00:00Z", "2026-07-15T12:00:00Z"].map((text) => {
      const instant = parseInstant(text);
      return instant === null ? null : formatInstant(instant, "local", 0);
    });
    expect(shown).toEqual(["2026-01-15 13:00:00", "2026-07-15 14:00:00"]);
  });
});

describe("durations", () => {
  it.each([
    [0, "0 ns"],
    [999, "999 ns"],
    [1_234_567, "1.23 ms"],
    [850_000, "850 µs"],
    [59.96e9, "60 s"],
    [200e9, "3m 20s"],
    [90_061e9, "1d 1h"],
  ])("%d", (nanos, text) => expect(formatDuration(nanos)).toBe(text));

  it("are parsed as users write them", () => {
    expect(parseDuration("1.5s")).toBe(1.5e9);
    // In floating point, 1.005 times 1e9 is not a whole number.
    expect(parseDuration("1.005s")).toBe(1_005_000_000);
    expect(parseDuration("200")).toBe(200e6);
    expect(parseDuration("soon")).toBeNull();
  });
});

describe("JSON", () => {
  it("keeps integers that JavaScript would round", () => {
    const value = parseJson(
      '{"a":9223372036854775807,"b":[-9223372036854775808],"c":"12345678901234567890","d":1.5}',
    );
    expect(value).toMatchObject({
      a: new LosslessNumber("9223372036854775807"),
      c: "12345678901234567890",
      d: 1.5,
    });
    expect(JSON.parse(writeJson(value))).toEqual(JSON.parse(writeJson(value)));
    expect(writeJson(value, 0)).toBe(
      '{"a":9223372036854775807,"b":[-9223372036854775808],"c":"12345678901234567890","d":1.5}',
    );
  });

  it("escapes invisible characters, and keeps large integers", () => {
    expect(asciiJson(["\u202ea\u001b[31m😀", new LosslessNumber("9223372036854775807")])).toBe(
      '["\\u202ea\\u001b[31m\\ud83d\\ude00",9223372036854775807]',
    );
  });
});

describe("text with invisible characters", () => {
  it("shows them by name", () => {
    expect(sanitize("a\u202eb\u0000")).toBe("a⟨U+202E⟩b⟨U+0000⟩");
    expect(sanitize("tab\tand line\n")).toBe("tab\tand line\n");
    expect(sanitize("")).toBe("");
    expect(sanitize("😀 שלום")).toBe("😀 שלום");
  });
});
