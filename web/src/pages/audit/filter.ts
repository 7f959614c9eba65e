import { parseInstant } from "../../lib/time";
import { parseLength, shortTime } from "../search/range";
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
export function timeOf(text: string, now: Date): string {
  const seconds = parseLength(text);
  return seconds === null ? text : new Date(now.getTime() - seconds * 1000).toISOString();
}

/** The filter of the URL at the given time. */
export function filterOf(url: AuditUrl, now: Date): AuditFilter {
  const { from, to, actor, action, outcome } = url;
  return {
    ...(from === undefined ? {} : { from: timeOf(from, now) }),
    ...(to === undefined ? {} : { to: timeOf(to, now) }),
    ...(actor === undefined ? {} : { actor }),
    ...(action === undefined ? {} : { action }),
    ...(outcome === undefined ? {} : { outcome }),
  };
}

/** The time range around a record in which records of the same request are searched. */
export function around(at: string, seconds: number): { from?: string; to?: string } {
  const instant = parseInstant(at);
  return instant === null
    ? {}
    : {
        from: shortTime({ ...instant, seconds: instant.seconds - seconds }),
        to: shortTime({ ...instant, seconds: instant.seconds + seconds }),
      };
}

/** The smallest range that contains a record, for a link to it. */
export function only(at: string): { from?: string; to?: string } {
  const instant = parseInstant(at);
  if (instant === null) {
    return {};
  }
  const carry = instant.nanos === 999_999_999;
  const after = carry
    ? { seconds: instant.seconds + 1, nanos: 0 }
    : { seconds: instant.seconds, nanos: instant.nanos + 1 };
  return { from: shortTime(instant), to: shortTime(after) };
}
