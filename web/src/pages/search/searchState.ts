import type { Api } from "../../api/client";
import type { WireFilter } from "./conditions";
import type { Line, Progress } from "./ndjson";
import type { Order } from "./order";
import type { Window } from "./range";

/** The search, which is the same for all of its pages. */
export type SearchRequest = {
  readonly filter: WireFilter;
  readonly order: Order;
  readonly window: Window;
};

/** A search with the results so far. */
export type SearchState = {
  readonly request: SearchRequest;
  readonly startedAt: number;
  /** `cancelled` and `failed` searches keep the results so far, which are incomplete. */
  readonly status: "running" | "done" | "cancelled" | "failed";
  readonly elapsedMs: number | null;
  readonly traces: readonly Api["TraceSummary"][];
  readonly progress: Progress | null;
  /** Cursor of the page after those that are complete. */
  readonly cursor: string | null;
  readonly pages: number;
  readonly error: unknown;
};

export function startSearch(request: SearchRequest, now: number): SearchState {
  return {
    request,
    startedAt: now,
    status: "running",
    elapsedMs: null,
    traces: [],
    progress: null,
    cursor: null,
    pages: 0,
    error: null,
  };
}

/** Continues with the next page, or retries the failed one. */
export function continueSearch(state: SearchState): SearchState {
  return { ...state, status: "running", progress: null, error: null };
}

/** Adds lines. Duplicate traces are dropped, because changed data may move a trace to another page. */
export function addLines(state: SearchState, lines: readonly Line[]): SearchState {
  let { progress, cursor, pages } = state;
  const newTraces: Api["TraceSummary"][] = [];
  for (const line of lines) {
    if (line.kind === "trace") {
      newTraces.push(line.trace);
    } else if (line.kind === "progress") {
      progress = line.progress;
    } else if (line.kind === "end") {
      cursor = line.cursor;
      pages += 1;
    }
  }
  if (newTraces.length === 0) {
    return { ...state, progress, cursor, pages };
  }
  const knownIds = new Set(state.traces.map((trace) => trace.trace_id));
  const addedTraces = newTraces.filter(
    (trace) => !knownIds.has(trace.trace_id) && knownIds.add(trace.trace_id),
  );
  return { ...state, progress, cursor, pages, traces: [...state.traces, ...addedTraces] };
}

/** Progress between 0 and 1: the fraction of the service, otherwise from the searched time. */
export function fractionOf(progress: Progress): number {
  const [from, to, searchedTo] = [progress.from, progress.to, progress.searched_to].map(Date.parse) as [
    number,
    number,
    number,
  ];
  const fraction = progress.fraction ?? (to > from ? (to - searchedTo) / (to - from) : 0);
  return Number.isFinite(fraction) ? Math.min(1, Math.max(0, fraction)) : 0;
}
