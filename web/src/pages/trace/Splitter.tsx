import { useRef } from "react";
import classes from "./trace.module.css";

/** Draggable border between two columns; arrow keys move it as well. */
export function Splitter({
  label,
  value,
  min,
  max,
  onChange,
  reverse = false,
}: {
  label: string;
  value: number;
  min: number;
  max: number;
  onChange: (value: number) => void;
  /** Whether the value is the width of the column to the right. */
  reverse?: boolean;
}) {
  const drag = useRef<{ x: number; value: number } | null>(null);
  const sign = reverse ? -1 : 1;
  const setClamped = (width: number) => onChange(Math.round(Math.min(max, Math.max(min, width))));
  return (
    // biome-ignore lint/a11y/useSemanticElements: a movable separator is not an hr element
    <div
      role="separator"
      aria-orientation="vertical"
      aria-label={label}
      aria-valuenow={value}
      aria-valuemin={min}
      aria-valuemax={max}
      tabIndex={0}
      className={classes.splitter}
      onPointerDown={(event) => {
        event.preventDefault();
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.current = { x: event.clientX, value };
      }}
      onPointerMove={(event) => {
        if (drag.current !== null) {
          setClamped(drag.current.value + sign * (event.clientX - drag.current.x));
        }
      }}
      onPointerUp={() => {
        drag.current = null;
      }}
      onKeyDown={(event) => {
        const step = event.key === "ArrowLeft" ? -16 : event.key === "ArrowRight" ? 16 : 0;
        if (step !== 0) {
          event.preventDefault();
          event.stopPropagation();
          setClamped(value + sign * step);
        }
      }}
    />
  );
}
