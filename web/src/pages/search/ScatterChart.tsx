import { Text } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { type PointerEvent, useId, useMemo, useState } from "react";
import type { Api } from "../../api/client";
import { SanitizedText } from "../../components/SanitizedText";
import { Time } from "../../components/Time";
import { formatDuration } from "../../lib/duration";
import { nameOrPlaceholder } from "../../lib/names";
import { millis, PLOT_MARGIN } from "./chartPlot";
import classes from "./ScatterChart.module.css";
import {
  durationMarks,
  durationPosition,
  durationScale,
  nearestPoint,
  type Point,
  timeScale,
} from "./scatterScales";
import { TimeAxis } from "./TimeAxis";
import { traceLinkSearch } from "./traceLink";
import { useBrush } from "./useBrush";

type Trace = Api["TraceSummary"];

const HEIGHT = 60;
const LABEL_HEIGHT = 14;
const { left: LEFT, right: RIGHT } = PLOT_MARGIN;
const TOP = 10;
const BOTTOM = 22;
const HIT_RADIUS = 14;

function pointsOf(traces: readonly Trace[]): Point[] {
  return traces
    .map((trace) => ({
      id: trace.trace_id,
      at: millis(trace.start),
      nanos: trace.duration_nanos ?? Number.NaN,
      error: (trace.error_count ?? 0) > 0,
    }))
    .filter(({ at, nanos }) => Number.isFinite(at) && Number.isFinite(nanos));
}

/** Scatter chart of the loaded traces: duration over start. The table contains the same data. */
export function ScatterChart({
  traces,
  from,
  to,
  showsWholeWindow,
  highlightedId,
  onZoom,
}: {
  traces: readonly Trace[];
  from: string;
  to: string;
  showsWholeWindow: boolean;
  /** The trace that is selected in the table. */
  highlightedId: string | null;
  onZoom: (from: Date, to: Date) => void;
}) {
  const { ref, width } = useElementSize();
  const navigate = useNavigate();
  const title = useId();
  const [hoveredId, setHoveredId] = useState<string | null>(null);

  const points = useMemo(() => pointsOf(traces), [traces]);
  const xScale = useMemo(
    () => timeScale(points, { min: millis(from), max: millis(to) }, showsWholeWindow),
    [points, from, to, showsWholeWindow],
  );
  const yScale = useMemo(() => durationScale(points), [points]);
  const plotWidth = Math.max(1, width - LEFT - RIGHT);
  const plotHeight = HEIGHT - TOP - BOTTOM;
  const xOf = (at: number) => LEFT + ((at - xScale.min) / Math.max(1, xScale.max - xScale.min)) * plotWidth;
  const yOf = (nanos: number) => TOP + (1 - durationPosition(nanos, yScale)) * plotHeight;
  const plottedPoints = points.map((point) => ({ ...point, x: xOf(point.at), y: yOf(point.nanos) }));
  const errorPoints = plottedPoints.filter((point) => point.error);

  const highlightedPoint = plottedPoints.find((point) => point.id === (hoveredId ?? highlightedId));
  const hoveredTrace = hoveredId === null ? undefined : traces.find((trace) => trace.trace_id === hoveredId);

  const brush = useBrush({
    width,
    scale: xScale,
    onSelect: onZoom,
    onClick: (x, y) => {
      const hit = nearestPoint(plottedPoints, x, y, HIT_RADIUS);
      const trace = traces.find((candidate) => candidate.trace_id === hit?.id);
      if (trace !== undefined) {
        void navigate({
          to: "/trace/$traceId",
          params: { traceId: trace.trace_id },
          search: traceLinkSearch(trace),
        });
      }
    },
  });
  const handlePointerMove = (event: PointerEvent<SVGSVGElement>) => {
    brush.handlers.onPointerMove(event);
    if (!brush.isDragging) {
      const { x, y } = brush.position(event);
      setHoveredId(nearestPoint(plottedPoints, x, y, HIT_RADIUS)?.id ?? null);
    }
  };

  const summary =
    points.length === 0
      ? "No traces with a duration are loaded."
      : `${points.length} traces, ${errorPoints.length} of them with errors; from ${formatDuration(
          Math.min(...points.map((point) => point.nanos)),
        )} to ${formatDuration(Math.max(...points.map((point) => point.nanos)))}. The table below contains the same data.`;

  return (
    <div ref={ref} className={classes.chart} style={{ height: HEIGHT }}>
      {width > 0 && (
        <svg
          role="img"
          width={width}
          height={HEIGHT}
          className={classes.svg}
          aria-labelledby={`${title}-name ${title}-summary`}
          {...brush.handlers}
          onPointerMove={handlePointerMove}
          onPointerLeave={() => setHoveredId(null)}
          data-hovering={hoveredId !== null || undefined}
        >
          <title id={`${title}-name`}>Duration over start time</title>
          <desc id={`${title}-summary`}>{summary}</desc>
          {durationMarks(yScale, Math.floor(plotHeight / LABEL_HEIGHT)).map((mark) => (
            <g key={mark}>
              <line className={classes.line} x1={LEFT} x2={width - RIGHT} y1={yOf(mark)} y2={yOf(mark)} />
              <text className={classes.label} x={LEFT - 6} y={yOf(mark)} dy="0.32em" textAnchor="end">
                {formatDuration(mark)}
              </text>
            </g>
          ))}
          <TimeAxis scale={xScale} width={width} top={TOP + plotHeight} bottom={HEIGHT - 6} />
          <path
            className={classes.okPoints}
            d={plottedPoints
              .filter((point) => !point.error)
              .map(circlePath)
              .join("")}
          />
          <path className={classes.errorPoints} d={errorPoints.map(diamondPath).join("")} />
          {highlightedPoint !== undefined && (
            <circle className={classes.highlight} cx={highlightedPoint.x} cy={highlightedPoint.y} r={8} />
          )}
          {brush.selection !== null && (
            <rect className={classes.selection} {...brush.selection} y={TOP} height={plotHeight} />
          )}
        </svg>
      )}
      {hoveredTrace !== undefined && highlightedPoint !== undefined && !brush.isDragging && (
        <div
          className={classes.detail}
          aria-hidden
          style={
            highlightedPoint.x > width / 2
              ? { right: width - highlightedPoint.x + 14, top: 8 }
              : { left: highlightedPoint.x + 14, top: 8 }
          }
        >
          <Text size="sm" fw={600}>
            <SanitizedText text={nameOrPlaceholder(hoveredTrace.root_name)} maxLength={80} />
          </Text>
          <Text size="xs">
            <SanitizedText text={hoveredTrace.root_service || "unknown service"} maxLength={60} />
          </Text>
          <Text size="xs">
            {formatDuration(hoveredTrace.duration_nanos ?? Number.NaN)} · <Time at={hoveredTrace.start} />
          </Text>
          <Text size="xs">
            {hoveredTrace.span_count.toLocaleString("en")} spans
            {(hoveredTrace.error_count ?? 0) > 0 && ` · ${hoveredTrace.error_count} with errors`}
          </Text>
        </div>
      )}
    </div>
  );
}

const CIRCLE_RADIUS = 3.2;
const DIAMOND_RADIUS = 4.8;
/** A single path for all points, because thousands of elements would be slow. */
const circlePath = ({ x, y }: { x: number; y: number }) =>
  `M${(x - CIRCLE_RADIUS).toFixed(1)} ${y.toFixed(1)}a${CIRCLE_RADIUS} ${CIRCLE_RADIUS} 0 1 0 ${2 * CIRCLE_RADIUS} 0a${CIRCLE_RADIUS} ${CIRCLE_RADIUS} 0 1 0 ${-2 * CIRCLE_RADIUS} 0z`;
const diamondPath = ({ x, y }: { x: number; y: number }) =>
  `M${x.toFixed(1)} ${(y - DIAMOND_RADIUS).toFixed(1)}l${DIAMOND_RADIUS} ${DIAMOND_RADIUS}l${-DIAMOND_RADIUS} ${DIAMOND_RADIUS}l${-DIAMOND_RADIUS} ${-DIAMOND_RADIUS}z`;

/** Legend and instructions of the chart. */
export function ScatterLegend({ loadedCount }: { loadedCount: number | null }) {
  return (
    <Text size="xs" c="dimmed" component="div" className={classes.legend}>
      <svg width={12} height={12} aria-hidden>
        <path className={classes.okPoints} d={circlePath({ x: 6, y: 6 })} />
      </svg>
      no errors
      <svg width={12} height={12} aria-hidden>
        <path className={classes.errorPoints} d={diamondPath({ x: 6, y: 6 })} />
      </svg>
      with errors
      {loadedCount !== null && <span>· {loadedCount.toLocaleString("en")} loaded</span>}
      <span className={classes.hint}>· drag to zoom, click to open</span>
    </Text>
  );
}
