import type { Range } from "../../trace/scale";
import type { ExplanationSubject } from "./why/explanation";

/** State of a trace page in the URL. */
export type TraceUrl = {
  /** Id of the span whose details are open. */
  span?: string;
  /** The view; by default, the waterfall. */
  view?: "flame" | "groups";
  /** Zoomed range as `from-to`, in nanoseconds from the start of the trace; by default, the whole trace. */
  zoom?: string;
  /** Text to search for. */
  find?: string;
  /** Kind of access explanation that is open, if any. */
  why?: ExplanationSubject;
  /** The user whose access is explained. */
  user?: string;
};

// The router parses `123` and `true` as JSON values.
const textParam = (value: unknown): string | undefined =>
  (typeof value === "string" && value !== "") || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : undefined;

export function parseTraceUrl(search: Record<string, unknown>): TraceUrl {
  const [span, zoom, find] = [textParam(search.span), textParam(search.zoom), textParam(search.find)];
  const user = textParam(search.user);
  return {
    ...(span === undefined ? {} : { span }),
    ...(search.view === "flame" || search.view === "groups" ? { view: search.view } : {}),
    ...(zoom !== undefined && /^\d+-\d+$/.test(zoom) ? { zoom } : {}),
    ...(find === undefined ? {} : { find }),
    ...(search.why === "own" || search.why === "user" || search.why === "viewers" ? { why: search.why } : {}),
    ...(user === undefined ? {} : { user }),
  };
}

/** Returns the zoomed range, or `null` for the whole trace. */
export function parseZoom(zoom: string | undefined): Range | null {
  const [from = Number.NaN, to = Number.NaN] = (zoom ?? "").split("-").map(Number);
  return to > from ? { from, to } : null;
}

export function formatZoom(range: Range): string {
  return `${Math.floor(range.from)}-${Math.ceil(range.to)}`;
}
