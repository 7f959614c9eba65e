import { useElementSize } from "@mantine/hooks";
import { useEffect, useMemo, useRef, useState } from "react";
import { formatDuration } from "../../lib/duration";
import { sanitize } from "../../lib/sanitize";
import { isError } from "../../trace/flags";
import { flameLayout } from "../../trace/flame";
import { nameOf, serviceNameOf, type Trace } from "../../trace/model";
import classes from "./trace.module.css";
import { contextOf, useColours } from "./useColours";
import type { TraceState } from "./useTraceState";

const LANE_HEIGHT = 20;

/** Flame graph on a canvas: spans at their times, children below parents. */
export function FlameGraph({ trace, state }: { trace: Trace; state: TraceState }) {
  const { range, currentSpan, openSpan, findResult } = state;
  const layout = useMemo(() => flameLayout(trace), [trace]);
  const { ref: sizeRef, width, height } = useElementSize();
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const colours = useColours(trace);
  const [scrollTop, setScrollTop] = useState(0);
  const [hoveredSpan, setHoveredSpan] = useState(-1);
  const length = range.to - range.from || 1;

  useEffect(() => {
    const context = contextOf(canvas.current, width, height);
    if (context === null) {
      return;
    }
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const scale = width / length;
    const last = Math.min(layout.lanes, Math.ceil((scrollTop + height) / LANE_HEIGHT));
    for (let lane = Math.floor(scrollTop / LANE_HEIGHT); lane < last; lane += 1) {
      const y = lane * LANE_HEIGHT - scrollTop;
      let drawnUntil = -1;
      for (let index = layout.first[lane] ?? 0; index < (layout.first[lane + 1] ?? 0); index += 1) {
        const span = layout.spans[index] ?? 0;
        const x = ((trace.start[span] ?? 0) - range.from) * scale;
        const end = x + (trace.duration[span] ?? 0) * scale;
        if (x > width) {
          break;
        }
        // Of many spans within one pixel, only the first is drawn.
        if (end < 0 || (end < drawnUntil && span !== currentSpan)) {
          continue;
        }
        const [left, right] = [Math.max(x, -2), Math.min(Math.max(end, x + 1), width + 2)];
        drawnUntil = Math.floor(left) + 1;
        drawSpan(context, { trace, span, left, right, y, colours, isMatch: findResult.marks[span] === 1 });
        if (span === currentSpan || span === openSpan) {
          context.strokeStyle = colours.text;
          context.lineWidth = 2;
          context.strokeRect(left + 1, y + 1, Math.max(2, right - left - 2), LANE_HEIGHT - 3);
        }
      }
    }
  }, [trace, layout, range, length, width, height, scrollTop, colours, currentSpan, openSpan, findResult]);

  // Scrolls the current span into view.
  useEffect(() => {
    const element = scroller.current;
    const y = (layout.lane[currentSpan] ?? 0) * LANE_HEIGHT;
    if (
      element !== null &&
      (y < element.scrollTop || y + LANE_HEIGHT > element.scrollTop + element.clientHeight)
    ) {
      element.scrollTop = y - element.clientHeight / 2;
    }
  }, [layout, currentSpan]);

  const spanAt = (event: React.MouseEvent): number => {
    const { left, top: edge } = event.currentTarget.getBoundingClientRect();
    const lane = Math.floor((event.clientY - edge + event.currentTarget.scrollTop) / LANE_HEIGHT);
    const time = range.from + ((event.clientX - left) / (width || 1)) * length;
    const tolerance = (2 / (width || 1)) * length;
    for (let index = layout.first[lane] ?? 0; index < (layout.first[lane + 1] ?? 0); index += 1) {
      const span = layout.spans[index] ?? 0;
      const start = trace.start[span] ?? 0;
      if (start - tolerance <= time && time <= start + (trace.duration[span] ?? 0) + tolerance) {
        return span;
      }
    }
    return -1;
  };
  const describedSpan = hoveredSpan >= 0 ? hoveredSpan : currentSpan;
  return (
    <div className={classes.flame}>
      <p className={classes.flameStatus} role="status">
        {sanitize(`${serviceNameOf(trace, describedSpan)}: ${nameOf(trace, describedSpan)}`.slice(0, 200))}{" "}
        <span className={classes.secondary}>
          {formatDuration(trace.duration[describedSpan] ?? 0)}, self{" "}
          {formatDuration(trace.self[describedSpan] ?? 0)}
        </span>
      </p>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the page handles the keys */}
      <div
        ref={(element) => {
          scroller.current = element;
          sizeRef(element);
        }}
        className={classes.flameBox}
        role="application"
        aria-label="Flame graph: arrow keys move between spans, Enter opens the details"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move within it
        tabIndex={0}
        data-spans
        onScroll={(event) => setScrollTop(event.currentTarget.scrollTop)}
        onMouseMove={(event) => setHoveredSpan(spanAt(event))}
        onMouseLeave={() => setHoveredSpan(-1)}
        onClick={(event) => {
          const span = spanAt(event);
          if (span >= 0) {
            state.openDetails(span);
          }
        }}
        onDoubleClick={(event) => {
          const span = spanAt(event);
          if (span >= 0) {
            const start = trace.start[span] ?? 0;
            state.setRange({ from: start, to: start + (trace.duration[span] ?? 0) });
          }
        }}
      >
        <canvas ref={canvas} className={classes.flameCanvas} style={{ width, height }} aria-hidden />
        <div style={{ height: Math.max(0, layout.lanes * LANE_HEIGHT - height) }} />
      </div>
    </div>
  );
}

function drawSpan(
  context: CanvasRenderingContext2D,
  bar: {
    trace: Trace;
    span: number;
    left: number;
    right: number;
    y: number;
    colours: ReturnType<typeof useColours>;
    isMatch: boolean;
  },
): void {
  const { trace, span, left, right, y, colours } = bar;
  const width = right - left;
  context.fillStyle = colours.services[trace.service[span] ?? 0] ?? "gray";
  context.fillRect(left, y, Math.max(1, width - 1), LANE_HEIGHT - 1);
  if (isError(trace.flags[span])) {
    context.fillStyle = colours.error;
    context.fillRect(left, y + LANE_HEIGHT - 5, Math.max(1, width - 1), 4);
  }
  if (bar.isMatch) {
    context.fillStyle = colours.mark;
    context.fillRect(left, y, Math.max(2, width - 1), 4);
  }
  if (width > 32) {
    context.save();
    context.beginPath();
    context.rect(left, y, width - 4, LANE_HEIGHT);
    context.clip();
    context.fillStyle = colours.onServices[trace.service[span] ?? 0] ?? "black";
    context.fillText(sanitize(nameOf(trace, span).slice(0, 80)), Math.max(left, 0) + 4, y + LANE_HEIGHT / 2);
    context.restore();
  }
}
