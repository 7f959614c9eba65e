import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Trace } from "../../trace/model";
import {
  collapseOneLevel,
  expandAncestors,
  expandOneLevel,
  neighbour,
  rowOf,
  visibleRows,
  withCollapsed,
} from "../../trace/rows";
import { clampRange, isWholeRange, panRange, type Range, zoomRange } from "../../trace/scale";
import type { KeyAction } from "./keys";
import { formatZoom, parseZoom, type TraceUrl } from "./url";
import { useFind } from "./useFind";
import { useTraceUrl } from "./useTraceUrl";
import type { ExplanationSubject } from "./why/explanation";

export type View = "waterfall" | NonNullable<TraceUrl["view"]>;

export type TraceState = ReturnType<typeof useTraceState>;

/** State of a trace page, with its actions. */
export function useTraceState(trace: Trace) {
  const [url, changeUrl] = useTraceUrl();
  const [collapsed, setCollapsed] = useState<Uint8Array>(() => new Uint8Array(trace.count));
  const urlSpan = url.span === undefined ? -1 : (trace.byId.get(url.span) ?? -1);
  const [currentSpan, setCurrentSpan] = useState(urlSpan >= 0 ? urlSpan : trace.root);
  const rows = useMemo(() => visibleRows(trace, collapsed), [trace, collapsed]);
  const range = useMemo(
    () => clampRange(parseZoom(url.zoom) ?? { from: 0, to: trace.length }, trace.length),
    [url.zoom, trace],
  );
  const findResult = useFind(trace, url.find ?? "");
  // If several spans have the id, the selected one.
  const openSpan = url.span !== undefined && trace.ids[currentSpan] === url.span ? currentSpan : urlSpan;

  const setRange = useCallback(
    (to: Range | null) => {
      const clampedRange = to === null ? null : clampRange(to, trace.length);
      changeUrl({
        zoom:
          clampedRange === null || isWholeRange(clampedRange, trace.length)
            ? undefined
            : formatZoom(clampedRange),
      });
    },
    [changeUrl, trace],
  );

  const goTo = useCallback(
    (span: number) => {
      if (span < 0) {
        return;
      }
      setCurrentSpan(span);
      setCollapsed((previous) => expandAncestors(trace, previous, span));
      const [from, to] = [trace.start[span] ?? 0, (trace.start[span] ?? 0) + (trace.duration[span] ?? 0)];
      if (to < range.from || from > range.to) {
        const middle = (from + to) / 2 - (range.from + range.to) / 2;
        setRange(panRange(range, middle, trace.length));
      }
      if (openSpan >= 0) {
        changeUrl({ span: trace.ids[span] });
      }
    },
    [trace, range, setRange, openSpan, changeUrl],
  );

  // After the back button, or a link to a span of the same trace.
  const lastUrlSpan = useRef(url.span);
  useEffect(() => {
    if (url.span !== lastUrlSpan.current) {
      lastUrlSpan.current = url.span;
      const newSpan = url.span === undefined ? -1 : (trace.byId.get(url.span) ?? -1);
      if (newSpan >= 0 && trace.ids[currentSpan] !== url.span) {
        setCurrentSpan(newSpan);
        setCollapsed((previous) => expandAncestors(trace, previous, newSpan));
      }
    }
  }, [url.span, trace, currentSpan]);

  const openDetails = useCallback(
    (span: number) => {
      setCurrentSpan(span);
      setCollapsed((previous) => expandAncestors(trace, previous, span));
      changeUrl({ span: trace.ids[span], why: undefined, user: undefined });
    },
    [trace, changeUrl],
  );
  const closeDetails = useCallback(() => changeUrl({ span: undefined }), [changeUrl]);
  const why = url.why ?? null;
  const setWhy = useCallback(
    (to: ExplanationSubject | null, user?: string) =>
      // The open span stays, and is shown again when the explanation is closed.
      changeUrl(to === null ? { why: undefined, user: undefined } : { why: to, user }),
    [changeUrl],
  );

  const toggle = useCallback(
    (span: number) => setCollapsed((previous) => withCollapsed(previous, span, previous[span] !== 1)),
    [],
  );

  const moveTo = (row: number) => goTo(rows[Math.min(Math.max(row, 0), rows.length - 1)] ?? -1);

  const moveSideways = (right: boolean) => {
    const hasChildren = (trace.children[currentSpan] ?? 0) > 0;
    const isCollapsed = collapsed[currentSpan] === 1;
    if (right && hasChildren) {
      isCollapsed ? toggle(currentSpan) : goTo(currentSpan + 1);
    } else if (!right && hasChildren && !isCollapsed) {
      toggle(currentSpan);
    } else if (!right) {
      goTo(trace.parent[currentSpan] ?? -1);
    }
  };

  const performAction = (action: KeyAction, pageRows: number) => {
    const row = rowOf(rows, currentSpan);
    switch (action.type) {
      case "move":
        return moveTo(row + action.rows);
      case "page":
        return moveTo(row + action.pages * pageRows);
      case "edge":
        return moveTo(action.end ? rows.length - 1 : 0);
      case "sideways":
        return moveSideways(action.right);
      case "pan":
        return setRange(
          panRange(range, ((action.right ? 1 : -1) * (range.to - range.from)) / 4, trace.length),
        );
      case "open":
        return openDetails(currentSpan);
      case "close":
        return why === null ? closeDetails() : setWhy(null);
      case "why":
        return setWhy(why === null ? "own" : null);
      case "error": {
        const span = neighbour(trace.errorSpans, currentSpan, action.forward);
        if (span >= 0) {
          goTo(span);
          changeUrl({ span: trace.ids[span] });
        }
        return;
      }
      case "match":
        return goTo(neighbour(findResult.spans, currentSpan, action.forward));
      case "level": {
        const newCollapsed = action.collapse
          ? collapseOneLevel(trace, collapsed)
          : expandOneLevel(trace, collapsed);
        setCollapsed(newCollapsed);
        const visibleSpans = visibleRows(trace, newCollapsed);
        return setCurrentSpan(visibleSpans[rowOf(visibleSpans, currentSpan)] ?? currentSpan);
      }
      case "zoom": {
        if (action.factor === Number.POSITIVE_INFINITY) {
          return setRange(null);
        }
        const middle = (trace.start[currentSpan] ?? 0) + (trace.duration[currentSpan] ?? 0) / 2;
        const around = middle > range.from && middle < range.to ? middle : undefined;
        return setRange(zoomRange(range, action.factor, trace.length, around));
      }
    }
  };

  return {
    url,
    view: url.view ?? ("waterfall" as const),
    setView: (view: View) => changeUrl({ view: view === "waterfall" ? undefined : view }),
    /** The span that keys act on. */
    currentSpan,
    /** The span with open details, or −1. */
    openSpan,
    rows,
    collapsed,
    range,
    isWholeTrace: isWholeRange(range, trace.length),
    setRange,
    findResult,
    setFind: (find: string) => changeUrl({ find: find.trim() === "" ? undefined : find }),
    /** Makes a span the current one, and expands and scrolls as needed to show it. */
    goTo,
    openDetails,
    closeDetails,
    toggle,
    /** The kind of access explanation shown instead of a span's details, or `null`. */
    why,
    setWhy,
    /** Performs the action of a key. `pageRows` is the number of rows per page. */
    performAction,
  };
}
