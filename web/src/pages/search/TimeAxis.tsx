import { useTimeZone } from "../../app/useTimeZone";
import { PLOT_MARGIN } from "./chartPlot";
import classes from "./ScatterChart.module.css";
import { type Scale, timeMarks } from "./scatterScales";

/** Pixels between two marks, at least. */
const MARK_DISTANCE = 90;

/** Marks of time below a plot that ends at `top`, with their labels at the height of `bottom`. */
export function TimeAxis({
  scale,
  width,
  top,
  bottom,
}: {
  scale: Scale;
  width: number;
  top: number;
  bottom: number;
}) {
  const [zone] = useTimeZone();
  const { left, right } = PLOT_MARGIN;
  const plotWidth = Math.max(1, width - left - right);
  const xOf = (at: number) => left + ((at - scale.min) / Math.max(1, scale.max - scale.min)) * plotWidth;
  return timeMarks(scale, Math.max(2, Math.floor(plotWidth / MARK_DISTANCE)), zone).map(({ time, label }) => (
    <g key={time}>
      <line className={classes.tick} x1={xOf(time)} x2={xOf(time)} y1={top} y2={top + 4} />
      <text
        className={classes.label}
        x={Math.min(Math.max(xOf(time), left + 12), width - right - 18)}
        y={bottom}
        textAnchor="middle"
      >
        {label}
      </text>
    </g>
  ));
}
