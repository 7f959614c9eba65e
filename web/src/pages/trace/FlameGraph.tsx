import { useElementSize } from "@mantine/hooks";
import { useEffect, useMemo, useRef, useState } from "react";
import { formatDuration } from "../../lib/duration";
import { visible } from "../../lib/visible";
import { isError } from "../../trace/flags";
import { flameOf } from "../../trace/flame";
import { nameOf, serviceNameOf, type Trace } from "../../trace/model";
import classes from "./trace.module.css";
import { contextOf, useColours } from "./useColours";
import type { TraceState } from "./useTraceState";

const LANE = 20;

/** Flame graph on a canvas: spans at their times, children below parents. */
export function Flame({ trace, state }: { trace: Trace; state: TraceState }) {
  const { range, current, open, found } = state;
  const flame = useMemo(() => flameOf(trace), [trace]);
  const { ref: box, width, height } = useElementSize();
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const colours = useColours(trace);
  const [top, setTop] = useState(0);
  const [hovered, setHovered] = useState(-1);
  const length = range.to - range.from || 1;

  useEffect(() => {
    const context = canvas.current === null || width === 0 ? null : contextOf(canvas.current, width, height);
    if (context === null) {
      return;
    }
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const scale = width / length;
    const last = Math.min(flame.lanes, Math.ceil((top + height) / LANE));
    for (let lane = Math.floor(top / LANE); lane < last; lane += 1) {
      const y = lane * LANE - top;
      let drawn = -1;
      for (let place = flame.first[lane] ?? 0; place < (flame.first[lane + 1] ?? 0); place += 1) {
        const span = flame.spans[place] ?? 0;
        const x = ((trace.start[span] ?? 0) - range.from) * scale;
        const end = x + (trace.duration[span] ?? 0) * scale;
        if (x > width) {
          break;
        }
        // Of many spans within one pixel, only the first is drawn.
        if (end < 0 || (end < drawn && span !== current)) {
          continue;
        }
        const [left, right] = [Math.max(x, -2), Math.min(Math.max(end, x + 1), width + 2)];
        drawn = Math.floor(left) + 1;
        drawSpan(context, { trace, span, left, right, y, colours, marked: found.marks[span] === 1 });
        if (span === current || span === open) {
          context.strokeStyle = colours.text;
          context.lineWidth = 2;
          context.strokeRect(left + 1, y + 1, Math.max(2, right - left - 2), LANE - 3);
        }
      }
    }
  }, [trace, flame, range, length, width, height, top, colours, current, open, found]);

  // Scrolls the current span into view.
  useEffect(() => {
    const element = scroller.current;
    const y = (flame.lane[current] ?? 0) * LANE;
    if (element !== null && (y < element.scrollTop || y + LANE > element.scrollTop + element.clientHeight)) {
      element.scrollTop = y - element.clientHeight / 2;
    }
  }, [flame, current]);

  const spanAt = (event: React.MouseEvent): number => {
    const { left, top: edge } = event.currentTarget.getBoundingClientRect();
    const lane = Math.floor((event.clientY - edge + event.currentTarget.scrollTop) / LANE);
    const time = range.from + ((event.clientX - left) / (width || 1)) * length;
    const slack = (2 / (width || 1)) * length;
    for (let place = flame.first[lane] ?? 0; place < (flame.first[lane + 1] ?? 0); place += 1) {
      const span = flame.spans[place] ?? 0;
      const start = trace.start[span] ?? 0;
      if (start - slack <= time && time <= start + (trace.duration[span] ?? 0) + slack) {
        return span;
      }
    }
    return -1;
  };
  const told = hovered >= 0 ? hovered : current;
  return (
    <div className={classes.flame}>
      <p className={classes.flameTold} role="status">
        {visible(`${serviceNameOf(trace, told)}: ${nameOf(trace, told)}`.slice(0, 200))}{" "}
        <span className={classes.quiet}>
          {formatDuration(trace.duration[told] ?? 0)}, self {formatDuration(trace.self[told] ?? 0)}
        </span>
      </p>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the page handles the keys */}
      <div
        ref={(element) => {
          scroller.current = element;
          box(element);
        }}
        className={classes.flameBox}
        role="application"
        aria-label="Flame graph: arrow keys move between spans, Enter opens the details"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move within it
        tabIndex={0}
        data-spans
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        onMouseMove={(event) => setHovered(spanAt(event))}
        onMouseLeave={() => setHovered(-1)}
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
        <div style={{ height: Math.max(0, flame.lanes * LANE - height) }} />
      </div>
    </div>
  );
}

function drawSpan(
  context: CanvasRenderingContext2D,
  to: {
    trace: Trace;
    span: number;
    left: number;
    right: number;
    y: number;
    colours: ReturnType<typeof useColours>;
    marked: boolean;
  },
): void {
  const { trace, span, left, right, y, colours } = to;
  const room = right - left;
  context.fillStyle = colours.services[trace.service[span] ?? 0] ?? "gray";
  context.fillRect(left, y, Math.max(1, room - 1), LANE - 1);
  if (isError(trace.flags[span])) {
    context.fillStyle = colours.error;
    context.fillRect(left, y + LANE - 5, Math.max(1, room - 1), 4);
  }
  if (to.marked) {
    context.fillStyle = colours.mark;
    context.fillRect(left, y, Math.max(2, room - 1), 4);
  }
  if (room > 32) {
    context.save();
    context.beginPath();
    context.rect(left, y, room - 4, LANE);
    context.clip();
    context.fillStyle = colours.onServices[trace.service[span] ?? 0] ?? "black";
    context.fillText(visible(nameOf(trace, span).slice(0, 80)), Math.max(left, 0) + 4, y + LANE / 2);
    context.restore();
  }
}
