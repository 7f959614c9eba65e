import { formatInstant, type Instant, instantOf, parseInstant, type TimeZone } from "../../lib/time";

/** A time range as specified: relative to now, or absolute. */
export type Range =
  | { readonly kind: "last"; readonly text: string }
  | { readonly kind: "absolute"; readonly from: string; readonly to: string };

/** A time range in the API's format. */
export type Window = { readonly from: string; readonly to: string };

export const PRESETS = ["15m", "1h", "6h", "24h", "7d"] as const;
export const DEFAULT_RANGE = { kind: "last", text: "1h" } as const satisfies Range;

const UNIT_SECONDS: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };
const MAX_SECONDS = 10 * 366 * 86_400;

/** Parses `90m`, `1h 30m` or `7d` to seconds. Returns `null` if it is invalid, zero, or longer than traces can be stored. */
export function parseLength(text: string): number | null {
  const compact = text.trim().toLowerCase();
  if (!/^(\d+(\.\d+)?\s*[smhdw]\s*)+$/.test(compact)) {
    return null;
  }
  let seconds = 0;
  for (const [, number = "", unit = ""] of compact.matchAll(/(\d+(?:\.\d+)?)\s*([smhdw])/g)) {
    seconds += Number(number) * (UNIT_SECONDS[unit] ?? 0);
  }
  return seconds >= 1 && seconds <= MAX_SECONDS ? Math.round(seconds) : null;
}

/** Formats seconds in the largest unit up to days that needs no fraction, which other parsers than {@link parseLength} also
 * accept. */
export function lengthText(seconds: number): string {
  const unit = (["d", "h", "m"] as const).find((unit) => seconds % (UNIT_SECONDS[unit] ?? 1) === 0) ?? "s";
  return `${seconds / (UNIT_SECONDS[unit] ?? 1)}${unit}`;
}

/** RFC 3339 in UTC, without trailing zeros. */
export function formatUtc(instant: Instant): string {
  const seconds = new Date(instant.seconds * 1000).toISOString().slice(0, 19);
  const fraction = String(instant.nanos).padStart(9, "0").replace(/0+$/, "");
  return `${seconds}${fraction === "" ? "" : `.${fraction}`}Z`;
}

/** The window of a range for a search that starts now. */
export function windowOf(range: Range, now: Date): Window {
  if (range.kind === "absolute") {
    return { from: range.from, to: range.to };
  }
  const seconds = parseLength(range.text) ?? 3_600;
  return {
    from: formatUtc(instantOf(new Date(now.getTime() - seconds * 1000))),
    to: formatUtc(instantOf(now)),
  };
}

/** The next wider preset, for a search without results. */
export function widerRange(range: Range): Range | null {
  if (range.kind === "last") {
    const seconds = parseLength(range.text) ?? Number.POSITIVE_INFINITY;
    const widerPreset = ["24h", "7d", "30d"].find((text) => (parseLength(text) ?? 0) > seconds);
    return widerPreset === undefined ? null : { kind: "last", text: widerPreset };
  }
  // A range that ends now may not reach an absolute range in the past, which is therefore widened on both sides.
  const [from, to] = [parseInstant(range.from), parseInstant(range.to)];
  if (from === null || to === null) {
    return null;
  }
  const margin = Math.max(1_800, to.seconds - from.seconds);
  return {
    kind: "absolute",
    from: formatUtc({ ...from, seconds: from.seconds - margin }),
    to: formatUtc({ ...to, seconds: to.seconds + margin }),
  };
}

/** Parses typed times in the displayed zone: `09:30`, `2026-11-21`, `2026-11-21 09:30:15.5`, RFC 3339, `now`. */
export function parseTime(text: string, zone: TimeZone, now: Date): Instant | null {
  const trimmed = text.trim();
  if (trimmed.toLowerCase() === "now") {
    return instantOf(now);
  }
  const secondsAgo = /^(?:now\s*)?-\s*(.+)$/i.exec(trimmed)?.[1];
  if (secondsAgo !== undefined) {
    const seconds = parseLength(secondsAgo);
    return seconds === null ? null : instantOf(new Date(now.getTime() - seconds * 1000));
  }
  if (/(Z|[+-]\d{2}:\d{2})$/.test(trimmed) && trimmed.length > 10) {
    return parseInstant(trimmed);
  }
  const today = formatInstant(instantOf(now), zone, 0).slice(0, 10);
  const withDate = /^\d{1,2}:\d{2}/.test(trimmed) ? `${today} ${trimmed}` : trimmed;
  const [, year, month, day, hour = "0", minute = "0", second = "0", fraction = ""] =
    /^(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?$/.exec(
      withDate,
    ) ?? [];
  if (year === undefined || month === undefined || day === undefined) {
    return null;
  }
  const [y = 0, mo = 1, d = 1, h = 0, mi = 0, s = 0] = [year, month, day, hour, minute, second].map(Number);
  const utc = new Date(Date.UTC(y, mo - 1, d, h, mi, s));
  // JavaScript dates overflow: 30 February would become 2 March.
  if (utc.getUTCMonth() !== mo - 1 || utc.getUTCDate() !== d || h > 23 || mi > 59 || s > 59) {
    return null;
  }
  const millis = zone === "utc" ? utc.getTime() : new Date(y, mo - 1, d, h, mi, s).getTime();
  return { seconds: Math.floor(millis / 1000), nanos: Number(fraction.padEnd(9, "0")) };
}

/** Error messages of the two inputs of a range. */
export type RangeErrors = { readonly from?: string; readonly to?: string };

/** A typed range, or the errors of its inputs. */
export function parseRange(
  from: string,
  to: string,
  zone: TimeZone,
  now: Date,
): Range | { errors: RangeErrors } {
  const start = parseTime(from, zone, now);
  const end = to.trim() === "" ? instantOf(now) : parseTime(to, zone, now);
  if (start === null || end === null) {
    return {
      errors: {
        ...(start === null ? { from: timeError(from) } : {}),
        ...(end === null ? { to: timeError(to) } : {}),
      },
    };
  }
  if (end.seconds - start.seconds + (end.nanos - start.nanos) / 1e9 <= 0) {
    return { errors: { to: "The end must be after the start." } };
  }
  return { kind: "absolute", from: formatUtc(start), to: formatUtc(end) };
}

const timeError = (text: string) =>
  text.trim() === ""
    ? "Enter a time: 09:30, 2026-11-21 or 2026-11-21 09:30:15."
    : `“${text.trim()}” is not a time. Enter 09:30, 2026-11-21 or 2026-11-21 09:30:15.`;

/** A time for an input, without trailing zeros. */
export function inputText(time: string, zone: TimeZone): string {
  const instant = parseInstant(time);
  if (instant === null) {
    return time;
  }
  const digits = String(instant.nanos).padStart(9, "0").replace(/0+$/, "").length;
  return formatInstant(instant, zone, digits).replace(/:00$/, "");
}

/** Formats `1h` as `1 h`. */
export function spaceUnits(text: string): string {
  return text.replace(/(\d)([a-z])/g, "$1 $2").replace(/([a-z])(\d)/g, "$1 $2");
}

/** A short label of a range. */
export function rangeLabel(range: Range, zone: TimeZone): string {
  if (range.kind === "last") {
    return `last ${spaceUnits(range.text)}`;
  }
  const [from, to] = [inputText(range.from, zone), inputText(range.to, zone)];
  return `${from} – ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) || to : to}`;
}
