import type { Range } from "../../trace/scale";
import type { Why } from "./why/explanation";

/** What the address says of a trace page. */
export type TraceUrl = {
  /** Id of the span whose details are open. */
  span?: string;
  /** The waterfall when absent. */
  view?: "flame" | "groups";
  /** Nanoseconds from the trace's begin: `from-to`; the whole trace when absent. */
  zoom?: string;
  /** Text that is looked for. */
  find?: string;
  /** What of the access to the trace is explained beside it; nothing when absent. */
  why?: Why;
  /** The user whose access is explained. */
  user?: string;
};

// The router reads `123` and `true` as what they are in JSON.
const text = (value: unknown): string | undefined =>
  (typeof value === "string" && value !== "") || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : undefined;

export function traceOfUrl(search: Record<string, unknown>): TraceUrl {
  const [span, zoom, find] = [text(search.span), text(search.zoom), text(search.find)];
  const user = text(search.user);
  return {
    ...(span === undefined ? {} : { span }),
    ...(search.view === "flame" || search.view === "groups" ? { view: search.view } : {}),
    ...(zoom !== undefined && /^\d+-\d+$/.test(zoom) ? { zoom } : {}),
    ...(find === undefined ? {} : { find }),
    ...(search.why === "own" || search.why === "user" || search.why === "viewers" ? { why: search.why } : {}),
    ...(user === undefined ? {} : { user }),
  };
}

/** The part of the time that is zoomed in to; `null` for the whole. */
export function rangeOfUrl(zoom: string | undefined): Range | null {
  const [from = Number.NaN, to = Number.NaN] = (zoom ?? "").split("-").map(Number);
  return to > from ? { from, to } : null;
}

export function zoomOfRange(range: Range): string {
  return `${Math.floor(range.from)}-${Math.ceil(range.to)}`;
}
