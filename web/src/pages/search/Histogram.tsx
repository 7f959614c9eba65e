import { Text } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useId, useState } from "react";
import type { Api } from "../../api/client";
import { Time } from "../../components/Time";
import { countOf } from "../../lib/numbers";
import { millis, PLOT_MARGIN } from "./chartPlot";
import classes from "./ScatterChart.module.css";
import { TimeAxis } from "./TimeAxis";
import { useBrush } from "./useBrush";

/** Pixels. */
export const HISTOGRAM_HEIGHT = 46;
const TOP = 4;
const BOTTOM = 16;

/** Number of traces over the whole searched range, those with errors below the others. A drag selects a shorter range. */
export function Histogram({
  stats,
  loadedFrom,
  onZoom,
}: {
  stats: Api["TraceStats"];
  /** Time of the oldest loaded trace, if older ones are not loaded. */
  loadedFrom: string | null;
  onZoom: (from: Date, to: Date) => void;
}) {
  const { ref, width } = useElementSize();
  const id = useId();
  const [hovered, setHovered] = useState<number | null>(null);
  const { left, right } = PLOT_MARGIN;
  const scale = { min: millis(stats.from), max: millis(stats.to) };
  const plotWidth = Math.max(1, width - left - right);
  const plotHeight = HISTOGRAM_HEIGHT - TOP - BOTTOM;
  const xOf = (at: number) => left + ((at - scale.min) / Math.max(1, scale.max - scale.min)) * plotWidth;
  const most = Math.max(1, ...stats.buckets.map((bucket) => bucket.traces));
  const heightOf = (count: number) => (count === 0 ? 0 : Math.max(1, (count / most) * plotHeight));
  const bars = stats.buckets.map((bucket) => {
    const [start, end] = [xOf(millis(bucket.from)), xOf(millis(bucket.to))];
    return { bucket, x: start, width: Math.max(1, end - start - (end - start > 4 ? 1 : 0)) };
  });
  const brush = useBrush({ width, scale, onSelect: onZoom });
  const bottom = TOP + plotHeight;
  const { total } = stats;
  const summary = `${countOf(total.traces, "trace")}${
    total.errors === undefined ? "" : `, ${total.errors.toLocaleString("en")} of them with errors`
  }, in ${countOf(stats.buckets.length, "interval")}; at most ${most.toLocaleString("en")} in one.`;
  const shown = hovered === null || brush.isDragging ? undefined : bars[hovered];
  const unloadedEnd = loadedFrom === null ? left : xOf(Math.min(scale.max, millis(loadedFrom)));
  return (
    <div ref={ref} className={classes.chart} style={{ height: HISTOGRAM_HEIGHT }}>
      {width > 0 && (
        <svg
          role="img"
          width={width}
          height={HISTOGRAM_HEIGHT}
          className={classes.svg}
          aria-labelledby={`${id}-name ${id}-summary`}
          {...brush.handlers}
          onPointerMove={(event) => {
            brush.handlers.onPointerMove(event);
            const { x } = brush.position(event);
            const at = bars.findIndex((bar) => x >= bar.x && x < bar.x + bar.width + 1);
            setHovered(at < 0 ? null : at);
          }}
          onPointerLeave={() => setHovered(null)}
        >
          <title id={`${id}-name`}>Traces over time</title>
          <desc id={`${id}-summary`}>{summary}</desc>
          <defs>
            <pattern
              id={`${id}-hatch`}
              width={6}
              height={6}
              patternUnits="userSpaceOnUse"
              patternTransform="rotate(45)"
            >
              <line className={classes.hatch} x1={0} x2={0} y1={0} y2={6} />
            </pattern>
          </defs>
          {unloadedEnd - left > 1 && (
            <rect
              fill={`url(#${CSS.escape(id)}-hatch)`}
              x={left}
              y={TOP}
              width={unloadedEnd - left}
              height={plotHeight}
            />
          )}
          <line className={classes.line} x1={left} x2={width - right} y1={bottom} y2={bottom} />
          <text className={classes.label} x={left - 6} y={TOP} dy="0.7em" textAnchor="end">
            {most.toLocaleString("en")}
          </text>
          {bars.map(({ bucket, x, width: barWidth }, index) => {
            const errors = heightOf(bucket.errors ?? 0);
            const all = Math.max(heightOf(bucket.traces), errors);
            return (
              <g key={bucket.from} opacity={hovered === null || hovered === index ? 1 : 0.6}>
                <rect
                  className={classes.okPoints}
                  x={x}
                  y={bottom - all}
                  width={barWidth}
                  height={all - errors}
                />
                <rect
                  className={classes.errorPoints}
                  x={x}
                  y={bottom - errors}
                  width={barWidth}
                  height={errors}
                />
              </g>
            );
          })}
          <TimeAxis scale={scale} width={width} top={bottom} bottom={HISTOGRAM_HEIGHT - 4} />
          {brush.selection !== null && (
            <rect className={classes.selection} {...brush.selection} y={TOP} height={plotHeight} />
          )}
        </svg>
      )}
      {shown !== undefined && (
        <div
          className={classes.detail}
          aria-hidden
          style={
            shown.x > width / 2 ? { right: width - shown.x + 8, top: 4 } : { left: shown.x + 14, top: 4 }
          }
        >
          <Text size="xs" fw={600}>
            {countOf(shown.bucket.traces, "trace")}
            {(shown.bucket.errors ?? 0) > 0 && `, ${shown.bucket.errors?.toLocaleString("en")} with errors`}
          </Text>
          <Text size="xs">
            <Time at={shown.bucket.from} digits={0} /> – <Time at={shown.bucket.to} digits={0} />
          </Text>
        </div>
      )}
    </div>
  );
}
