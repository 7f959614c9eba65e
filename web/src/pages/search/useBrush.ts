import { type PointerEvent, useState } from "react";
import { PLOT_MARGIN } from "./chartPlot";
import type { Scale } from "./scatterScales";

/** Pixels that the pointer moves before a click becomes a drag. */
const MIN_DRAG = 6;

/** Selection of a time range by dragging over a chart with a scale of milliseconds. */
export function useBrush({
  width,
  scale,
  onSelect,
  onClick,
}: {
  width: number;
  scale: Scale;
  onSelect: (from: Date, to: Date) => void;
  onClick?: (x: number, y: number) => void;
}) {
  const [drag, setDrag] = useState<{ start: number; end: number } | null>(null);
  const left = PLOT_MARGIN.left;
  const right = width - PLOT_MARGIN.right;
  const clamped = (x: number) => Math.min(right, Math.max(left, x));
  const position = (event: PointerEvent<SVGSVGElement>) => {
    const bounds = event.currentTarget.getBoundingClientRect();
    return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
  };
  const select = (first: number, last: number) => {
    const [start, end] = [Math.min(first, last), Math.max(first, last)].map(
      (x) => scale.min + ((clamped(x) - left) / Math.max(1, right - left)) * (scale.max - scale.min),
    ) as [number, number];
    // Whole seconds are easier to read where they make no difference.
    const unit = end - start > 60_000 ? 1_000 : 1;
    const from = Math.floor(start / unit) * unit;
    onSelect(new Date(from), new Date(Math.max(Math.ceil(end / unit) * unit, from + 1)));
  };
  return {
    isDragging: drag !== null,
    /** The selected part in pixels, while it is dragged. */
    selection:
      drag === null || Math.abs(drag.end - drag.start) <= 2
        ? null
        : {
            x: clamped(Math.min(drag.start, drag.end)),
            width: clamped(Math.max(drag.start, drag.end)) - clamped(Math.min(drag.start, drag.end)),
          },
    position,
    handlers: {
      onPointerDown: (event: PointerEvent<SVGSVGElement>) => {
        if (event.button === 0) {
          event.currentTarget.setPointerCapture(event.pointerId);
          const { x } = position(event);
          setDrag({ start: x, end: x });
        }
      },
      onPointerMove: (event: PointerEvent<SVGSVGElement>) => {
        if (drag !== null) {
          setDrag({ ...drag, end: position(event).x });
        }
      },
      onPointerUp: (event: PointerEvent<SVGSVGElement>) => {
        const { x, y } = position(event);
        setDrag(null);
        if (drag !== null && Math.abs(drag.start - x) > MIN_DRAG) {
          select(drag.start, x);
        } else if (drag !== null) {
          onClick?.(x, y);
        }
      },
      onPointerCancel: () => setDrag(null),
    },
  };
}
