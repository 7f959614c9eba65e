import { omitUndefined, oneOf, textParam } from "../../lib/urlParams";
import type { Range } from "../../trace/scale";

/** State of a trace page in the URL. */
export type TraceUrl = {
  /** Id of the span whose details are open. */
  span?: string;
  /** The view; by default, the waterfall. */
  view?: (typeof VIEWS)[number];
  /** Zoomed range as `from-to`, in nanoseconds from the start of the trace; by default, the whole trace. */
  zoom?: string;
  /** Text to search for. */
  find?: string;
  /** Kind of access explanation that is open, if any. */
  why?: (typeof SUBJECTS)[number];
  /** The user whose access is explained. */
  user?: string;
};

const VIEWS = ["flame", "groups"] as const;
const SUBJECTS = ["own", "user", "viewers"] as const;

export function parseTraceUrl(search: Record<string, unknown>): TraceUrl {
  const zoom = textParam(search.zoom);
  return omitUndefined({
    span: textParam(search.span),
    view: oneOf(VIEWS, search.view),
    zoom: zoom !== undefined && /^\d+-\d+$/.test(zoom) ? zoom : undefined,
    find: textParam(search.find),
    why: oneOf(SUBJECTS, search.why),
    user: textParam(search.user),
  });
}

/** Returns the zoomed range, or `null` for the whole trace. */
export function parseZoom(zoom: string | undefined): Range | null {
  const [from = Number.NaN, to = Number.NaN] = (zoom ?? "").split("-").map(Number);
  return to > from ? { from, to } : null;
}

export function formatZoom(range: Range): string {
  return `${Math.floor(range.from)}-${Math.ceil(range.to)}`;
}
