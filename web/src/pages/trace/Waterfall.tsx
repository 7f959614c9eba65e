// biome-ignore-all lint/a11y/useSemanticElements: table elements cannot be positioned when only some rows exist
// biome-ignore-all lint/a11y/useFocusableInteractive: the focus stays on the grid, which names the active row
// biome-ignore-all lint/a11y/useKeyWithClickEvents: the page handles the keys
import { useLocalStorage } from "@mantine/hooks";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { formatDuration } from "../../lib/duration";
import type { Trace } from "../../trace/model";
import { rowOf } from "../../trace/rows";
import { ticksOf } from "../../trace/scale";
import { SpanRow } from "./SpanRow";
import { Splitter } from "./Splitter";
import type { TraceState } from "./useTraceState";
import classes from "./waterfall.module.css";
import type { MatchingSpans } from "./why/useAccess";

/** Heights in pixels: of a row with the bar next to the name, of a row with the bar below the name, and of the scale. */
const ROW_HEIGHT = 22;
const TALL_ROW_HEIGHT = 42;
const SCALE_HEIGHT = 22;
/** Number of rows that are rendered beyond each edge, for smooth scrolling. */
const OVERSCAN = 12;
/** Step in rows by which the rendered range moves. */
const ROW_STEP = 6;

/** Height of a row in a view of this width, in pixels. */
export function rowHeightOf(width: number): number {
  return width > 0 && width < 640 ? TALL_ROW_HEIGHT : ROW_HEIGHT;
}

/** Spans as a tree with their times. Only the visible rows are in the document. */
export function Waterfall({
  trace,
  state,
  matchingSpans,
  width,
  height,
}: {
  trace: Trace;
  state: TraceState;
  matchingSpans: MatchingSpans;
  width: number;
  height: number;
}) {
  const { rows, currentSpan, range } = state;
  const scroller = useRef<HTMLDivElement>(null);
  const [firstRow, setFirstRow] = useState(0);
  const [nameWidth, setNameWidth] = useLocalStorage({
    key: "tracewarden-trace-names",
    defaultValue: 380,
    getInitialValueInEffect: false,
  });
  const rowHeight = rowHeightOf(width);
  const isNarrow = rowHeight === TALL_ROW_HEIGHT;
  const namesWidth = isNarrow ? 0 : Math.min(nameWidth, Math.max(160, width - 240));
  const currentRow = rowOf(rows, currentSpan);

  // biome-ignore lint/correctness/useExhaustiveDependencies: added or removed rows also move the current one
  useLayoutEffect(() => {
    const box = scroller.current;
    if (box === null || height === 0) {
      return;
    }
    const top = currentRow * rowHeight;
    const visibleHeight = box.clientHeight - SCALE_HEIGHT;
    const [hiddenAbove, hiddenBelow] = [box.scrollTop - top, top + rowHeight - box.scrollTop - visibleHeight];
    if (hiddenAbove > 0 || hiddenBelow > 0) {
      const isFar = Math.max(hiddenAbove, hiddenBelow) > 2 * rowHeight;
      box.scrollTop = isFar
        ? top - visibleHeight / 2 + rowHeight
        : hiddenAbove > 0
          ? top
          : box.scrollTop + hiddenBelow;
    }
  }, [currentRow, rows, rowHeight, height === 0]);

  useEffect(() => {
    // Focuses the spans for the keys, unless another element has the focus.
    if (document.activeElement === document.body || document.activeElement === null) {
      scroller.current?.focus({ preventScroll: true });
    }
  }, []);

  const ticks = useMemo(
    () => ticksOf(range, Math.max(2, Math.floor((width - namesWidth - 64) / 110))),
    [range, width, namesWidth],
  );
  const length = range.to - range.from || 1;
  const from = Math.max(0, firstRow - OVERSCAN);
  const to = Math.min(rows.length, firstRow + Math.ceil((height || 600) / rowHeight) + ROW_STEP + OVERSCAN);
  const renderedRows = rows.subarray(from, to);
  return (
    <>
      <div
        ref={scroller}
        role="treegrid"
        aria-label="Spans"
        aria-rowcount={rows.length + 1}
        aria-activedescendant={`span-${currentSpan}`}
        aria-readonly
        tabIndex={0}
        data-spans
        className={classes.waterfall}
        data-narrow={isNarrow || undefined}
        style={{ "--names": `${namesWidth}px`, "--row": `${rowHeight}px` } as React.CSSProperties}
        onScroll={(event) => {
          const row = Math.floor(event.currentTarget.scrollTop / rowHeight);
          setFirstRow(row - (row % ROW_STEP));
        }}
      >
        <div role="row" aria-rowindex={1} className={classes.scale}>
          <div role="columnheader" className={classes.scaleName}>
            Span
          </div>
          <div
            role="columnheader"
            className={classes.scaleTimes}
            aria-label="Time from the start of the trace"
          >
            {ticks.map((tick) => (
              <span
                key={tick}
                className={classes.tick}
                style={{ left: `${((tick - range.from) / length) * 100}%` }}
              >
                {formatTick(tick, ticks)}
              </span>
            ))}
          </div>
        </div>
        <div role="presentation" style={{ height: rows.length * rowHeight, position: "relative" }}>
          <div
            role="presentation"
            className={classes.grid}
            style={{ top: from * rowHeight, height: renderedRows.length * rowHeight }}
          >
            {ticks.map((tick) => (
              <span key={tick} style={{ left: `${((tick - range.from) / length) * 100}%` }} />
            ))}
          </div>
          {Array.from(renderedRows, (span, index) => (
            <SpanRow
              key={span}
              trace={trace}
              index={span}
              row={from + index}
              rowHeight={rowHeight}
              from={range.from}
              length={length}
              isCurrent={span === currentSpan}
              isOpen={span === state.openSpan}
              isCollapsed={state.collapsed[span] === 1}
              isMatch={state.findResult.marks[span] === 1}
              accessLabel={matchingSpans.spans.has(span) ? matchingSpans.label : null}
              maxIndent={isNarrow ? width * 0.35 : namesWidth * 0.45}
              onOpen={state.openDetails}
              onToggle={state.toggle}
            />
          ))}
        </div>
      </div>
      {!isNarrow && (
        <div className={classes.nameSplitter} style={{ left: namesWidth - 4 }}>
          <Splitter
            label="Width of the names"
            value={namesWidth}
            min={160}
            max={Math.max(200, width - 240)}
            onChange={setNameWidth}
          />
        </div>
      )}
    </>
  );
}

/** Ticks far from the start differ only in late digits, which the usual format rounds away. */
function formatTick(tick: number, ticks: readonly number[]): string {
  const text = formatDuration(tick);
  const step = (ticks[1] ?? 0) - (ticks[0] ?? 0);
  if (tick === 0 || !(step > 0) || tick / step < 100) {
    return text;
  }
  const [unit, unitNanos] =
    tick >= 1e9 ? ["s", 1e9] : tick >= 1e6 ? ["ms", 1e6] : tick >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  const digits = Math.min(9, Math.max(0, Math.ceil(Math.log10((unitNanos as number) / step))));
  return `${(tick / (unitNanos as number)).toFixed(digits)} ${unit}`;
}
