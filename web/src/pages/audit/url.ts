/** What the address says of the audit explorer. A time is RFC 3339, or how long ago, as `24h`. */
export type AuditUrl = {
  from?: string;
  to?: string;
  actor?: string;
  action?: string;
  outcome?: Outcome;
  /** The one request whose records are wanted. */
  request?: string;
  /** The record that is open. */
  record?: string;
};

export const OUTCOMES = ["success", "denied", "failed", "not_found", "aborted", "unknown"] as const;

export type Outcome = (typeof OUTCOMES)[number];

export function isOutcome(text: unknown): text is Outcome {
  return OUTCOMES.some((outcome) => outcome === text);
}

const TEXTS = ["from", "to", "actor", "action", "request", "record"] as const;

export function auditOfUrl(search: Record<string, unknown>): AuditUrl {
  const url: AuditUrl = {};
  for (const name of TEXTS) {
    const value = search[name];
    // Ids of digits alone are read as numbers.
    const text = typeof value === "number" ? String(value) : value;
    if (typeof text === "string" && text.trim() !== "") {
      url[name] = text;
    }
  }
  if (isOutcome(search.outcome)) {
    url.outcome = search.outcome;
  }
  return url;
}
