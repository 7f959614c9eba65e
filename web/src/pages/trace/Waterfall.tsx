// biome-ignore-all lint/a11y/useSemanticElements: table elements cannot be positioned when only some rows exist
// biome-ignore-all lint/a11y/useFocusableInteractive: the focus stays on the grid, which names the active row
// biome-ignore-all lint/a11y/useKeyWithClickEvents: the page handles the keys
import { useLocalStorage } from "@mantine/hooks";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { formatDuration } from "../../lib/duration";
import type { Trace } from "../../trace/model";
import { rowOf } from "../../trace/rows";
import { ticksOf } from "../../trace/scale";
import { Row } from "./Row";
import { Splitter } from "./Splitter";
import type { TraceState } from "./useTraceState";
import classes from "./waterfall.module.css";
import type { Opening } from "./why/useAccess";

/** Heights in pixels: of a row with the bar next to the name, of a row with the bar below the name, and of the scale. */
const ROW = 26;
const TALL_ROW = 42;
const SCALE = 26;
/** Number of rows that are rendered beyond each edge, for smooth scrolling. */
const BEYOND = 12;
/** Step in rows by which the rendered range moves. */
const STEP = 6;

/** Spans as a tree with their times. Only the visible rows are in the document. */
export function Waterfall({
  trace,
  state,
  opening,
  width,
  height,
}: {
  trace: Trace;
  state: TraceState;
  opening: Opening;
  width: number;
  height: number;
}) {
  const { rows, current, range } = state;
  const scroller = useRef<HTMLDivElement>(null);
  const [first, setFirst] = useState(0);
  const [nameWidth, setNameWidth] = useLocalStorage({
    key: "tracewarden-trace-names",
    defaultValue: 380,
    getInitialValueInEffect: false,
  });
  const narrow = width > 0 && width < 640;
  const rowHeight = narrow ? TALL_ROW : ROW;
  const names = narrow ? 0 : Math.min(nameWidth, Math.max(160, width - 240));
  const currentRow = rowOf(rows, current);

  // biome-ignore lint/correctness/useExhaustiveDependencies: added or removed rows also move the current one
  useLayoutEffect(() => {
    const box = scroller.current;
    if (box === null || height === 0) {
      return;
    }
    const top = currentRow * rowHeight;
    const room = box.clientHeight - SCALE;
    const [above, below] = [box.scrollTop - top, top + rowHeight - box.scrollTop - room];
    if (above > 0 || below > 0) {
      const far = Math.max(above, below) > 2 * rowHeight;
      box.scrollTop = far ? top - room / 2 + rowHeight : above > 0 ? top : box.scrollTop + below;
    }
  }, [currentRow, rows, rowHeight, height === 0]);

  useEffect(() => {
    // Focuses the spans for the keys, unless another element has the focus.
    if (document.activeElement === document.body || document.activeElement === null) {
      scroller.current?.focus({ preventScroll: true });
    }
  }, []);

  const ticks = useMemo(
    () => ticksOf(range, Math.max(2, Math.floor((width - names - 64) / 110))),
    [range, width, names],
  );
  const length = range.to - range.from || 1;
  const from = Math.max(0, first - BEYOND);
  const to = Math.min(rows.length, first + Math.ceil((height || 600) / rowHeight) + STEP + BEYOND);
  const shown = rows.subarray(from, to);
  return (
    <>
      <div
        ref={scroller}
        role="treegrid"
        aria-label="Spans"
        aria-rowcount={rows.length + 1}
        aria-activedescendant={`span-${current}`}
        aria-readonly
        tabIndex={0}
        data-spans
        className={classes.waterfall}
        data-narrow={narrow || undefined}
        style={{ "--names": `${names}px`, "--row": `${rowHeight}px` } as React.CSSProperties}
        onScroll={(event) => {
          const row = Math.floor(event.currentTarget.scrollTop / rowHeight);
          setFirst(row - (row % STEP));
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
            style={{ top: from * rowHeight, height: shown.length * rowHeight }}
          >
            {ticks.map((tick) => (
              <span key={tick} style={{ left: `${((tick - range.from) / length) * 100}%` }} />
            ))}
          </div>
          {Array.from(shown, (span, place) => (
            <Row
              key={span}
              trace={trace}
              index={span}
              row={from + place}
              rowHeight={rowHeight}
              from={range.from}
              length={length}
              current={span === current}
              open={span === state.open}
              collapsed={state.collapsed[span] === 1}
              matched={state.found.marks[span] === 1}
              opens={opening.spans.has(span) ? opening.said : null}
              indentRoom={narrow ? width * 0.35 : names * 0.45}
              onOpen={state.openDetails}
              onToggle={state.toggle}
            />
          ))}
        </div>
      </div>
      {!narrow && (
        <div className={classes.nameSplitter} style={{ left: names - 4 }}>
          <Splitter
            label="Width of the names"
            value={names}
            least={160}
            most={Math.max(200, width - 240)}
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
  const [unit, of] =
    tick >= 1e9 ? ["s", 1e9] : tick >= 1e6 ? ["ms", 1e6] : tick >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  const digits = Math.min(9, Math.max(0, Math.ceil(Math.log10((of as number) / step))));
  return `${(tick / (of as number)).toFixed(digits)} ${unit}`;
}
