/** A point in time with nanoseconds, which do not fit into a JavaScript number of milliseconds. */
export type Instant = { readonly seconds: number; readonly nanos: number };

export type TimeZone = "local" | "utc";

const TIME_PATTERN = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:[.,](\d{1,9}))?(Z|[+-]\d{2}:\d{2})?$/;

/** Parses an RFC 3339 time, also in ClickHouse's format, or returns `null`. Without a zone, it is UTC. */
export function parseInstant(text: string): Instant | null {
  const [, date, time, fraction = "", zone = "Z"] = TIME_PATTERN.exec(text.trim()) ?? [];
  if (date === undefined || time === undefined) {
    return null;
  }
  const millis = Date.parse(`${date}T${time}${zone}`);
  return Number.isNaN(millis) ? null : { seconds: millis / 1000, nanos: Number(fraction.padEnd(9, "0")) };
}

/** Nanoseconds between two times; exact for up to 104 days. */
export function nanosBetween(from: Instant, to: Instant): number {
  return (to.seconds - from.seconds) * 1e9 + (to.nanos - from.nanos);
}

export function instantOf(date: Date): Instant {
  const millis = date.getTime();
  return { seconds: Math.floor(millis / 1000), nanos: (((millis % 1000) + 1000) % 1000) * 1e6 };
}

const padTwo = (value: number) => String(value).padStart(2, "0");

/** Formats a time as `2026-11-21 23:50:12.123`, with `digits` digits of a second. */
export function formatInstant(instant: Instant, zone: TimeZone, digits = 3): string {
  const utc = new Date(instant.seconds * 1000);
  const shown = zone === "utc" ? utc : new Date(utc.getTime() - utc.getTimezoneOffset() * 60_000);
  if (Number.isNaN(shown.getTime())) {
    return "–";
  }
  const fraction = digits > 0 ? `.${String(instant.nanos).padStart(9, "0").slice(0, digits)}` : "";
  return shown.toISOString().slice(0, 19).replace("T", " ") + fraction;
}

/** UTC offset of the local time zone at a time: `UTC+1`. */
export function localTimeLabel(at: Date): string {
  const minutes = -at.getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "−" : "+"}${hours}${rest === 0 ? "" : `:${padTwo(rest)}`}`;
}

/** Formats a relative time such as `5 minutes ago`, for times that need not be exact. */
export function formatRelativeTime(time: Date, now: Date): string {
  const seconds = Math.round((now.getTime() - time.getTime()) / 1000);
  const units: [string, number][] = [
    ["day", 86_400],
    ["hour", 3_600],
    ["minute", 60],
  ];
  const format = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  for (const [unit, length] of units) {
    if (Math.abs(seconds) >= length) {
      return format.format(-Math.round(seconds / length), unit as Intl.RelativeTimeFormatUnit);
    }
  }
  return Math.abs(seconds) < 10 ? "now" : format.format(-seconds, "second");
}
