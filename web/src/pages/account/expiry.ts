export const EXPIRIES = [
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "1 year" },
  { value: "date", label: "On a date" },
  { value: "never", label: "Never" },
] as const;

export type Expiry = (typeof EXPIRIES)[number]["value"];

const DAY_MS = 86_400_000;

/** Expiry of an API key in the API's format, where `null` means no expiry, or an error message for a missing or past date.
 *
 * A date is interpreted in the local time zone, and includes the whole day. */
export function expiryOf(expiry: Expiry, date: string, now: Date): { at: string | null } | { error: string } {
  if (expiry === "never") {
    return { at: null };
  }
  if (expiry !== "date") {
    return { at: new Date(now.getTime() + Number(expiry) * DAY_MS).toISOString() };
  }
  const [, year, month, day] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(date) ?? [];
  if (year === undefined) {
    return { error: "Choose a date" };
  }
  const end = new Date(Number(year), Number(month) - 1, Number(day) + 1);
  return end.getTime() <= now.getTime() ? { error: "Choose a future date" } : { at: end.toISOString() };
}

/** A key that expires within this time causes a warning. */
export const WARNING_DAYS = 14;

/** Whole days until a time; negative if it is not in the future. */
export function daysUntil(at: string, now: Date): number {
  const left = new Date(at).getTime() - now.getTime();
  return left <= 0 ? -1 : Math.floor(left / DAY_MS);
}
