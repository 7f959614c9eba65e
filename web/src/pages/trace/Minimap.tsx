import { useElementSize } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";
import { formatDuration } from "../../lib/duration";
import type { Trace } from "../../trace/model";
import classes from "./trace.module.css";
import { contextOf, useColours } from "./useColours";
import type { TraceState } from "./useTraceState";

const HEIGHT = 36;
/** With more spans than this, the lines of the map cannot be distinguished. */
const MAX_LINES = 20_000;

/** Overview of the whole trace. Dragging zooms to the selected range. */
export function Minimap({ trace, state }: { trace: Trace; state: TraceState }) {
  const { range, isWholeTrace, setRange, findResult } = state;
  const { ref: sizeRef, width } = useElementSize();
  const spansCanvas = useRef<HTMLCanvasElement>(null);
  const matchesCanvas = useRef<HTMLCanvasElement>(null);
  const colours = useColours(trace);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const length = trace.length || 1;

  useEffect(() => {
    const context = contextOf(spansCanvas.current, width, HEIGHT);
    if (context === null) {
      return;
    }
    const step = Math.ceil(trace.count / MAX_LINES);
    const line = Math.max(1, Math.min(6, (HEIGHT - 6) / trace.count));
    for (let span = 0; span < trace.count; span += step) {
      context.fillStyle = colours.services[trace.service[span] ?? 0] ?? "gray";
      context.fillRect(
        ((trace.start[span] ?? 0) / length) * width,
        3 + (span / trace.count) * (HEIGHT - 6),
        Math.max(1, ((trace.duration[span] ?? 0) / length) * width),
        Math.max(1, line - 0.5),
      );
    }
    context.fillStyle = colours.error;
    for (const span of trace.errorSpans.subarray(0, MAX_LINES)) {
      context.fillRect(
        ((trace.start[span] ?? 0) / length) * width,
        3 + (span / trace.count) * (HEIGHT - 6),
        Math.max(2, ((trace.duration[span] ?? 0) / length) * width),
        Math.max(2, line - 0.5),
      );
    }
  }, [trace, width, length, colours]);

  useEffect(() => {
    const context = contextOf(matchesCanvas.current, width, HEIGHT);
    if (context !== null) {
      context.fillStyle = colours.mark;
      for (const span of findResult.spans.subarray(0, MAX_LINES)) {
        context.fillRect(((trace.start[span] ?? 0) / length) * width - 1, HEIGHT - 6, 2, 6);
      }
    }
  }, [findResult, trace, width, length, colours]);

  const timeAt = (event: React.PointerEvent) => {
    const { left } = event.currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - left) / (width || 1))) * length;
  };
  const percent = (time: number) => `${(time / length) * 100}%`;
  const selection = drag ?? (isWholeTrace ? null : range);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: for the pointer; the keys + − 0 and the buttons do the same
    <div
      ref={sizeRef}
      className={classes.minimap}
      title="Drag to zoom in; double-click for the whole trace"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag({ from: timeAt(event), to: timeAt(event) });
      }}
      onPointerMove={(event) => {
        const to = timeAt(event);
        setDrag((previous) => (previous === null ? null : { from: previous.from, to }));
      }}
      onPointerUp={() => {
        // A drag of a few pixels is a click, which moves the visible range there.
        if (drag !== null && (Math.abs(drag.to - drag.from) / length) * width > 3) {
          setRange({ from: Math.min(drag.from, drag.to), to: Math.max(drag.from, drag.to) });
        } else if (drag !== null && !isWholeTrace) {
          const half = (range.to - range.from) / 2;
          const middle = Math.min(Math.max(drag.from, half), length - half);
          setRange({ from: middle - half, to: middle + half });
        }
        setDrag(null);
      }}
      onPointerCancel={() => setDrag(null)}
      onDoubleClick={() => setRange(null)}
    >
      <canvas
        ref={spansCanvas}
        style={{ height: HEIGHT }}
        role="img"
        aria-label={`Overview: ${isWholeTrace ? "the whole trace is shown" : `${formatDuration(range.from)} to ${formatDuration(range.to)} of ${formatDuration(trace.length)} is shown`}`}
      />
      <canvas ref={matchesCanvas} style={{ height: HEIGHT }} aria-hidden />
      {selection !== null && (
        <>
          <span
            className={classes.outsideSelection}
            style={{ left: 0, width: percent(Math.min(selection.from, selection.to)) }}
          />
          <span
            className={classes.outsideSelection}
            style={{ left: percent(Math.max(selection.from, selection.to)), right: 0 }}
          />
          <span
            className={classes.selection}
            style={{
              left: percent(Math.min(selection.from, selection.to)),
              width: percent(Math.abs(selection.to - selection.from)),
            }}
          />
        </>
      )}
    </div>
  );
}
