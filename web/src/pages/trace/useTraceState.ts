import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Trace } from "../../trace/model";
import {
  neighbour,
  oneLevelLess,
  oneLevelMore,
  revealed,
  rowOf,
  toggled,
  visibleRows,
} from "../../trace/rows";
import { isWhole, moved, type Range, within, zoomed } from "../../trace/scale";
import type { KeyAction } from "./keys";
import { rangeOfUrl, type TraceUrl, zoomOfRange } from "./url";
import { type Found, useFind } from "./useFind";
import { useTraceUrl } from "./useTraceUrl";
import type { Why } from "./why/explanation";

export type View = "waterfall" | "flame" | "groups";

/** State of a trace page, with its actions. */
export type TraceState = {
  readonly url: TraceUrl;
  readonly view: View;
  readonly setView: (view: View) => void;
  /** The span that keys act on. */
  readonly current: number;
  /** The span with open details, or −1. */
  readonly open: number;
  readonly rows: Int32Array;
  readonly collapsed: Uint8Array;
  readonly range: Range;
  readonly whole: boolean;
  readonly setRange: (range: Range | null) => void;
  readonly found: Found;
  readonly setFind: (text: string) => void;
  /** Makes a span the current one, and expands and scrolls as needed to show it. */
  readonly go: (span: number) => void;
  readonly openDetails: (span: number) => void;
  readonly closeDetails: () => void;
  readonly toggle: (span: number) => void;
  /** The kind of access explanation shown instead of a span's details, or `null`. */
  readonly why: Why | null;
  readonly setWhy: (why: Why | null, user?: string) => void;
  /** Performs the action of a key. `pageRows` is the number of rows per page. */
  readonly act: (action: KeyAction, pageRows: number) => void;
};

export function useTraceState(trace: Trace): TraceState {
  const [url, change] = useTraceUrl();
  const [collapsed, setCollapsed] = useState<Uint8Array>(() => new Uint8Array(trace.count));
  const named = url.span === undefined ? -1 : (trace.byId.get(url.span) ?? -1);
  const [current, setCurrent] = useState(named >= 0 ? named : trace.root);
  const rows = useMemo(() => visibleRows(trace, collapsed), [trace, collapsed]);
  const range = useMemo(
    () => within(rangeOfUrl(url.zoom) ?? { from: 0, to: trace.length }, trace.length),
    [url.zoom, trace],
  );
  const found = useFind(trace, url.find ?? "");
  // If several spans have the id, the selected one.
  const open = url.span !== undefined && trace.ids[current] === url.span ? current : named;

  const setRange = useCallback(
    (to: Range | null) => {
      const kept = to === null ? null : within(to, trace.length);
      change({ zoom: kept === null || isWhole(kept, trace.length) ? undefined : zoomOfRange(kept) });
    },
    [change, trace],
  );

  const go = useCallback(
    (span: number) => {
      if (span < 0) {
        return;
      }
      setCurrent(span);
      setCollapsed((before) => revealed(trace, before, span));
      const [from, to] = [trace.start[span] ?? 0, (trace.start[span] ?? 0) + (trace.duration[span] ?? 0)];
      if (to < range.from || from > range.to) {
        const middle = (from + to) / 2 - (range.from + range.to) / 2;
        setRange(moved(range, middle, trace.length));
      }
      if (open >= 0) {
        change({ span: trace.ids[span] });
      }
    },
    [trace, range, setRange, open, change],
  );

  // After the back button, or a link to a span of the same trace.
  const latest = useRef(url.span);
  useEffect(() => {
    if (url.span !== latest.current) {
      latest.current = url.span;
      const target = url.span === undefined ? -1 : (trace.byId.get(url.span) ?? -1);
      if (target >= 0 && trace.ids[current] !== url.span) {
        setCurrent(target);
        setCollapsed((before) => revealed(trace, before, target));
      }
    }
  }, [url.span, trace, current]);

  const openDetails = useCallback(
    (span: number) => {
      setCurrent(span);
      setCollapsed((before) => revealed(trace, before, span));
      change({ span: trace.ids[span], why: undefined, user: undefined });
    },
    [trace, change],
  );
  const closeDetails = useCallback(() => change({ span: undefined }), [change]);
  const why = url.why ?? null;
  const setWhy = useCallback(
    (to: Why | null, user?: string) =>
      change(to === null ? { why: undefined, user: undefined } : { why: to, user, span: undefined }),
    [change],
  );

  const toggle = useCallback(
    (span: number) => setCollapsed((before) => toggled(before, span, before[span] !== 1)),
    [],
  );

  const moveTo = (row: number) => go(rows[Math.min(Math.max(row, 0), rows.length - 1)] ?? -1);

  const sideways = (right: boolean) => {
    const hasChildren = (trace.children[current] ?? 0) > 0;
    const isCollapsed = collapsed[current] === 1;
    if (right && hasChildren) {
      isCollapsed ? toggle(current) : go(current + 1);
    } else if (!right && hasChildren && !isCollapsed) {
      toggle(current);
    } else if (!right) {
      go(trace.parent[current] ?? -1);
    }
  };

  const act = (action: KeyAction, pageRows: number) => {
    const row = rowOf(rows, current);
    switch (action.do) {
      case "move":
        return moveTo(row + action.rows);
      case "page":
        return moveTo(row + action.pages * pageRows);
      case "edge":
        return moveTo(action.end ? rows.length - 1 : 0);
      case "sideways":
        return sideways(action.right);
      case "pan":
        return setRange(moved(range, ((action.right ? 1 : -1) * (range.to - range.from)) / 4, trace.length));
      case "open":
        return openDetails(current);
      case "close":
        return why === null ? closeDetails() : setWhy(null);
      case "why":
        return setWhy(why === null ? "own" : null);
      case "error":
        return go(neighbour(trace.troubled, current, action.forward));
      case "match":
        return go(neighbour(found.spans, current, action.forward));
      case "level": {
        const next = action.collapse ? oneLevelLess(trace, collapsed) : oneLevelMore(trace, collapsed);
        setCollapsed(next);
        const visible = visibleRows(trace, next);
        return setCurrent(visible[rowOf(visible, current)] ?? current);
      }
      case "zoom": {
        if (action.factor === Number.POSITIVE_INFINITY) {
          return setRange(null);
        }
        const middle = (trace.start[current] ?? 0) + (trace.duration[current] ?? 0) / 2;
        const around = middle > range.from && middle < range.to ? middle : undefined;
        return setRange(zoomed(range, action.factor, trace.length, around));
      }
    }
  };

  return {
    url,
    view: url.view ?? "waterfall",
    setView: (view) => change({ view: view === "waterfall" ? undefined : view }),
    current,
    open,
    rows,
    collapsed,
    range,
    whole: isWhole(range, trace.length),
    setRange,
    found,
    setFind: (find) => change({ find }),
    go,
    openDetails,
    closeDetails,
    toggle,
    why,
    setWhy,
    act,
  };
}
