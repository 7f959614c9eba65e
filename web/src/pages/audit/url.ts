import { omitUndefined, oneOf, textParam } from "../../lib/urlParams";

/** State of the audit page in the URL. A time is RFC 3339, or relative to now, such as `24h`. */
export type AuditUrl = {
  from?: string;
  to?: string;
  actor?: string;
  /** Id of an API key or session. */
  key?: string;
  /** Object of the action, such as a trace id. */
  target?: string;
  action?: string;
  outcome?: Outcome;
  /** A request whose records are shown alone. */
  request?: string;
  /** The open record. */
  record?: string;
};

export const OUTCOMES = ["success", "denied", "failed", "not_found", "aborted", "unknown"] as const;

export type Outcome = (typeof OUTCOMES)[number];

export function isOutcome(text: unknown): text is Outcome {
  return OUTCOMES.some((outcome) => outcome === text);
}

const TEXT_PARAMS = ["from", "to", "actor", "key", "target", "action", "request", "record"] as const;

export function parseAuditUrl(search: Record<string, unknown>): AuditUrl {
  const texts = Object.fromEntries(TEXT_PARAMS.map((name) => [name, textParam(search[name])]));
  return omitUndefined({ ...texts, outcome: oneOf(OUTCOMES, search.outcome) });
}
