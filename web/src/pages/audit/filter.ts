import { parseInstant } from "../../lib/time";
import { formatUtc, parseLength } from "../search/range";
import type { AuditUrl, Outcome } from "./url";

/** Filters of `GET /audit`. */
export type AuditFilter = {
  from?: string;
  to?: string;
  actor?: string;
  action?: string;
  outcome?: Outcome;
};

/** Converts a time of the URL, which may be relative to now, to the API's format. */
export function resolveTime(text: string, now: Date): string {
  const seconds = parseLength(text);
  return seconds === null ? text : new Date(now.getTime() - seconds * 1000).toISOString();
}

/** The filter of the URL at the given time. */
export function resolveFilter(url: AuditUrl, now: Date): AuditFilter {
  const { from, to, actor, action, outcome } = url;
  return {
    ...(from === undefined ? {} : { from: resolveTime(from, now) }),
    ...(to === undefined ? {} : { to: resolveTime(to, now) }),
    ...(actor === undefined ? {} : { actor }),
    ...(action === undefined ? {} : { action }),
    ...(outcome === undefined ? {} : { outcome }),
  };
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
  const carries = instant.nanos === 999_999_999;
  const end = carries
    ? { seconds: instant.seconds + 1, nanos: 0 }
    : { seconds: instant.seconds, nanos: instant.nanos + 1 };
  return { from: formatUtc(instant), to: formatUtc(end) };
}
