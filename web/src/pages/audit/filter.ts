import { parseInstant } from "../../lib/time";
import { omitUndefined } from "../../lib/urlParams";
import { formatUtc, parseLength } from "../search/range";
import type { AuditUrl } from "./url";

/** Filters of `GET /audit`. */
export type AuditFilter = Omit<AuditUrl, "request" | "record">;

/** Converts a time of the URL, which may be relative to now, to the API's format. */
export function resolveTime(text: string, now: Date): string {
  const seconds = parseLength(text);
  return seconds === null ? text : new Date(now.getTime() - seconds * 1000).toISOString();
}

/** The filter of the URL at the given time. */
export function resolveFilter(url: AuditUrl, now: Date): AuditFilter {
  const { from, to, actor, key, target, action, outcome } = url;
  return omitUndefined({
    from: from === undefined ? undefined : resolveTime(from, now),
    to: to === undefined ? undefined : resolveTime(to, now),
    actor,
    key,
    target,
    action,
    outcome,
  });
}

/** The time range around a record in which records of the same request are searched. */
export function rangeAround(at: string, seconds: number): { from?: string; to?: string } {
  const instant = parseInstant(at);
  return instant === null
    ? {}
    : {
        from: formatUtc({ ...instant, seconds: instant.seconds - seconds }),
        to: formatUtc({ ...instant, seconds: instant.seconds + seconds }),
      };
}

/** The smallest range that contains a record, for a link to it. */
export function rangeOfOne(at: string): { from?: string; to?: string } {
  const instant = parseInstant(at);
  if (instant === null) {
    return {};
  }
  const { seconds, nanos } = instant;
  const end = nanos === 999_999_999 ? { seconds: seconds + 1, nanos: 0 } : { seconds, nanos: nanos + 1 };
  return { from: formatUtc(instant), to: formatUtc(end) };
}
