import { Text } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { type PointerEvent, useId, useMemo, useState } from "react";
import type { Api } from "../../api/client";
import { useZone } from "../../app/settings";
import { Time } from "../../components/Time";
import { Visible } from "../../components/Visible";
import { formatDuration } from "../../lib/duration";
import { nameOrNone } from "../../lib/names";
import { parseInstant } from "../../lib/time";
import classes from "./Scatter.module.css";
import {
  durationMarks,
  durationScale,
  durationShare,
  nearest,
  type Point,
  timeMarks,
  timeScale,
} from "./scatter";
import { traceSearch } from "./traceLink";

type Trace = Api["TraceSummary"];

const HEIGHT = 168;
const LEFT = 58;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 22;
const REACH = 14;

const millis = (time: string) => {
  const instant = parseInstant(time);
  return instant === null ? Number.NaN : instant.seconds * 1000 + instant.nanos / 1e6;
};

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
export function Scatter({
  traces,
  from,
  to,
  complete,
  marked,
  onZoom,
}: {
  traces: readonly Trace[];
  from: string;
  to: string;
  complete: boolean;
  /** The trace that is selected in the table. */
  marked: string | null;
  onZoom: (from: Date, to: Date) => void;
}) {
  const { ref, width } = useElementSize();
  const [zone] = useZone();
  const navigate = useNavigate();
  const title = useId();
  const [hovered, setHovered] = useState<string | null>(null);
  const [drag, setDrag] = useState<{ start: number; end: number } | null>(null);

  const points = useMemo(() => pointsOf(traces), [traces]);
  const times = useMemo(
    () => timeScale(points, { min: millis(from), max: millis(to) }, complete),
    [points, from, to, complete],
  );
  const durations = useMemo(() => durationScale(points), [points]);
  const inner = Math.max(1, width - LEFT - RIGHT);
  const deep = HEIGHT - TOP - BOTTOM;
  const xOf = (at: number) => LEFT + ((at - times.min) / Math.max(1, times.max - times.min)) * inner;
  const yOf = (nanos: number) => TOP + (1 - durationShare(nanos, durations)) * deep;
  const places = points.map((point) => ({ ...point, x: xOf(point.at), y: yOf(point.nanos) }));
  const errors = places.filter((place) => place.error);

  const spot = places.find((place) => place.id === (hovered ?? marked));
  const detail = hovered === null ? undefined : traces.find((trace) => trace.trace_id === hovered);

  const placeOf = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const onMove = (event: PointerEvent<SVGSVGElement>) => {
    const { x, y } = placeOf(event);
    if (drag === null) {
      setHovered(nearest(places, x, y, REACH)?.id ?? null);
    } else {
      setDrag({ ...drag, end: x });
    }
  };
  const onDown = (event: PointerEvent<SVGSVGElement>) => {
    if (event.button === 0) {
      event.currentTarget.setPointerCapture(event.pointerId);
      const { x } = placeOf(event);
      setDrag({ start: x, end: x });
    }
  };
  const onUp = (event: PointerEvent<SVGSVGElement>) => {
    const { x, y } = placeOf(event);
    setDrag(null);
    if (drag !== null && Math.abs(drag.start - x) > 6) {
      const [one, other] = [drag.start, x].map((edge) => {
        const share = Math.min(1, Math.max(0, (edge - LEFT) / inner));
        return times.min + share * (times.max - times.min);
      }) as [number, number];
      // Whole seconds are easier to read where they make no difference.
      const unit = Math.abs(one - other) > 60_000 ? 1_000 : 1;
      const start = Math.floor(Math.min(one, other) / unit) * unit;
      onZoom(new Date(start), new Date(Math.max(Math.ceil(Math.max(one, other) / unit) * unit, start + 1)));
      return;
    }
    const near = nearest(places, x, y, REACH);
    const trace = traces.find((one) => one.trace_id === near?.id);
    if (trace !== undefined && drag !== null) {
      void navigate({
        to: "/trace/$traceId",
        params: { traceId: trace.trace_id },
        search: traceSearch(trace),
      });
    }
  };

  const summary =
    points.length === 0
      ? "No traces with a duration are loaded."
      : `${points.length} traces, ${errors.length} of them with errors; from ${formatDuration(
          Math.min(...points.map((point) => point.nanos)),
        )} to ${formatDuration(Math.max(...points.map((point) => point.nanos)))}. The table below holds the same, for the keyboard and for reading out.`;

  return (
    <div ref={ref} className={classes.chart} style={{ height: HEIGHT }}>
      {width > 0 && (
        <svg
          role="img"
          width={width}
          height={HEIGHT}
          className={classes.drawing}
          aria-labelledby={`${title}-name ${title}-summary`}
          onPointerMove={onMove}
          onPointerDown={onDown}
          onPointerUp={onUp}
          onPointerCancel={() => setDrag(null)}
          onPointerLeave={() => setHovered(null)}
          data-near={hovered !== null || undefined}
        >
          <title id={`${title}-name`}>Duration over start time</title>
          <desc id={`${title}-summary`}>{summary}</desc>
          {durationMarks(durations, 7).map((mark) => (
            <g key={mark}>
              <line className={classes.line} x1={LEFT} x2={width - RIGHT} y1={yOf(mark)} y2={yOf(mark)} />
              <text className={classes.label} x={LEFT - 6} y={yOf(mark)} dy="0.32em" textAnchor="end">
                {formatDuration(mark)}
              </text>
            </g>
          ))}
          {timeMarks(times, Math.max(2, Math.floor(inner / 90)), zone).map(({ at, label }) => (
            <g key={at}>
              <line className={classes.tick} x1={xOf(at)} x2={xOf(at)} y1={TOP + deep} y2={TOP + deep + 4} />
              <text
                className={classes.label}
                x={Math.min(Math.max(xOf(at), LEFT + 12), width - RIGHT - 18)}
                y={HEIGHT - 6}
                textAnchor="middle"
              >
                {label}
              </text>
            </g>
          ))}
          <path
            className={classes.fine}
            d={places
              .filter((place) => !place.error)
              .map(circle)
              .join("")}
          />
          <path className={classes.failed} d={errors.map(diamond).join("")} />
          {spot !== undefined && <circle className={classes.spot} cx={spot.x} cy={spot.y} r={8} />}
          {drag !== null && Math.abs(drag.end - drag.start) > 2 && (
            <rect
              className={classes.selection}
              x={Math.max(LEFT, Math.min(drag.start, drag.end))}
              width={Math.max(
                0,
                Math.min(width - RIGHT, Math.max(drag.start, drag.end)) -
                  Math.max(LEFT, Math.min(drag.start, drag.end)),
              )}
              y={TOP}
              height={deep}
            />
          )}
        </svg>
      )}
      {detail !== undefined && spot !== undefined && drag === null && (
        <div
          className={classes.detail}
          aria-hidden
          style={spot.x > width / 2 ? { right: width - spot.x + 14, top: 8 } : { left: spot.x + 14, top: 8 }}
        >
          <Text size="sm" fw={600}>
            <Visible text={nameOrNone(detail.root_name)} most={80} />
          </Text>
          <Text size="xs">
            <Visible text={detail.root_service || "unknown service"} most={60} />
          </Text>
          <Text size="xs">
            {formatDuration(detail.duration_nanos ?? Number.NaN)} · <Time at={detail.start} />
          </Text>
          <Text size="xs">
            {detail.span_count.toLocaleString("en")} spans
            {(detail.error_count ?? 0) > 0 && ` · ${detail.error_count} with errors`}
          </Text>
        </div>
      )}
    </div>
  );
}

const R = 3.2;
const D = 4.8;
/** A single path for all points, because thousands of elements would be slow. */
const circle = ({ x, y }: { x: number; y: number }) =>
  `M${(x - R).toFixed(1)} ${y.toFixed(1)}a${R} ${R} 0 1 0 ${2 * R} 0a${R} ${R} 0 1 0 ${-2 * R} 0z`;
const diamond = ({ x, y }: { x: number; y: number }) =>
  `M${x.toFixed(1)} ${(y - D).toFixed(1)}l${D} ${D}l${-D} ${D}l${-D} ${-D}z`;

/** Legend and instructions of the chart. */
export function ScatterLegend({ loaded }: { loaded: number | null }) {
  return (
    <Text size="xs" c="var(--tw-quiet)" component="div" className={classes.legend}>
      <svg width={12} height={12} aria-hidden>
        <path className={classes.fine} d={circle({ x: 6, y: 6 })} />
      </svg>
      no errors
      <svg width={12} height={12} aria-hidden>
        <path className={classes.failed} d={diamond({ x: 6, y: 6 })} />
      </svg>
      with errors
      {loaded !== null && <span>· the {loaded.toLocaleString("en")} that are loaded</span>}
      <span className={classes.hint}>· drag to zoom, click to open</span>
    </Text>
  );
}
