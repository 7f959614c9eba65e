// biome-ignore-all lint/a11y/useSemanticElements: table elements cannot be positioned when only some rows exist
// biome-ignore-all lint/a11y/useFocusableInteractive: the focus stays on the grid, which names the active row
// biome-ignore-all lint/a11y/useKeyWithClickEvents: the page handles the keys
import { IconAlertCircleFilled, IconAlertTriangle, IconLockOpen } from "@tabler/icons-react";
import { memo } from "react";
import { Visible } from "../../components/Visible";
import { serviceColour } from "../../lib/colours";
import { formatDuration } from "../../lib/duration";
import { Flag, isError } from "../../trace/flags";
import { nameOf, serviceNameOf, type Trace } from "../../trace/model";
import page from "./trace.module.css";
import classes from "./waterfall.module.css";

const INDENT = 12;
const NAME = 160;

type Properties = {
  trace: Trace;
  index: number;
  row: number;
  rowHeight: number;
  from: number;
  length: number;
  current: boolean;
  open: boolean;
  collapsed: boolean;
  matched: boolean;
  /** Description of a matching span; `null` for other spans. */
  opens: string | null;
  /** Maximum indentation in pixels; deeper spans show their depth as a number. */
  indentRoom: number;
  onOpen: (span: number) => void;
  onToggle: (span: number) => void;
};

/** A span of the waterfall. */
export const Row = memo(function Row(properties: Properties) {
  const { trace, index, row, rowHeight, collapsed, indentRoom } = properties;
  const flags = trace.flags[index] ?? 0;
  const depth = trace.depth[index] ?? 0;
  const children = trace.children[index] ?? 0;
  const levels = Math.min(depth, Math.max(1, Math.floor(indentRoom / INDENT)));
  const service = trace.services[trace.service[index] ?? 0]?.name ?? "";
  const end = trace.end[index] ?? index + 1;
  const troubledInside = (trace.troubledBefore[end] ?? 0) - (trace.troubledBefore[index + 1] ?? 0);
  return (
    <div
      id={`span-${index}`}
      role="row"
      aria-rowindex={row + 2}
      aria-level={depth + 1}
      aria-expanded={children > 0 ? !collapsed : undefined}
      aria-selected={properties.current}
      className={classes.row}
      data-current={properties.current || undefined}
      data-open={properties.open || undefined}
      data-matched={properties.matched || undefined}
      style={{ transform: `translateY(${row * rowHeight}px)` }}
      onClick={() => properties.onOpen(index)}
    >
      <div role="gridcell" className={classes.name} style={{ paddingLeft: levels * INDENT }}>
        {depth > levels && <span className={classes.deep}>{depth}</span>}
        {children > 0 ? (
          // The keys ← and → do the same, so that the button is not in the tab order.
          <button
            type="button"
            tabIndex={-1}
            className={classes.expander}
            aria-label={collapsed ? "Expand" : "Collapse"}
            onClick={(event) => {
              event.stopPropagation();
              properties.onToggle(index);
            }}
          >
            <svg viewBox="0 0 14 14" width={14} height={14} aria-hidden>
              <path
                d={collapsed ? "M5 3l4 4-4 4" : "M3 5l4 4 4-4"}
                fill="none"
                stroke="currentColor"
                strokeWidth={1.5}
              />
            </svg>
          </button>
        ) : (
          <span className={classes.noExpander} />
        )}
        <span className={classes.strip} style={{ background: serviceColour(service) }} aria-hidden />
        <Marks flags={flags} />
        {properties.opens !== null && (
          <IconLockOpen size={14} className={classes.opensMark} role="img" aria-label={properties.opens} />
        )}
        <span className={classes.names}>
          {/* The space is for screen readers, which read the row's texts together. */}
          <Visible text={nameOf(trace, index)} most={NAME} />{" "}
          <span className={classes.service}>
            <Visible text={serviceNameOf(trace, index)} most={NAME} />
          </span>
        </span>
        {collapsed && (
          <span className={classes.inside}>
            {(end - index - 1).toLocaleString("en")} more
            {troubledInside > 0 && (
              <span className={page.errorText}>
                , {troubledInside.toLocaleString("en")} {troubledInside === 1 ? "error" : "errors"}
              </span>
            )}
          </span>
        )}
      </div>
      <div role="gridcell" className={classes.times}>
        <Bar {...properties} service={service} />
      </div>
    </div>
  );
});

function Marks({ flags }: { flags: number }) {
  return (
    <>
      {isError(flags) && (
        <IconAlertCircleFilled
          size={14}
          className={classes.errorMark}
          role="img"
          aria-label={(flags & Flag.Error) !== 0 ? "Error" : "Exception"}
        />
      )}
      {(flags & (Flag.MissingParent | Flag.BeforeParent | Flag.Cycle | Flag.Duplicate | Flag.Untimed)) !==
        0 && (
        <IconAlertTriangle size={14} className={classes.faultMark} role="img" aria-label={faultName(flags)} />
      )}
    </>
  );
}

export function faultName(flags: number): string {
  return (flags & Flag.MissingParent) !== 0
    ? "Parent missing"
    : (flags & Flag.BeforeParent) !== 0
      ? "Begins before its parent"
      : (flags & Flag.Cycle) !== 0
        ? "In a cycle of parents"
        : (flags & Flag.Duplicate) !== 0
          ? "Same id as an earlier span"
          : "Invalid times";
}

/** Bar of the span's time, with its parts on the critical path and its duration. */
function Bar({ trace, index, from, length, service }: Properties & { service: string }) {
  const [start, took] = [trace.start[index] ?? 0, trace.duration[index] ?? 0];
  const [left, right] = [(start - from) / length, (start + took - from) / length];
  const label = formatDuration(took);
  if (right < 0) {
    return <span className={classes.outsideLeft}>◂ {label}</span>;
  }
  if (left > 1) {
    return <span className={classes.outsideRight}>{label} ▸</span>;
  }
  const [shownLeft, shownRight] = [Math.max(left, 0), Math.min(right, 1)];
  const segments = criticalParts(trace, index, from, length);
  const percent = (part: number) => `${part * 100}%`;
  return (
    <>
      <span
        className={classes.bar}
        style={{
          left: percent(shownLeft),
          width: percent(shownRight - shownLeft),
          background: serviceColour(service),
        }}
      />
      {segments.map(([begin, finish]) => (
        <span
          key={begin}
          className={classes.critical}
          style={{
            left: percent(begin),
            width: percent(finish - begin),
          }}
        />
      ))}
      <span className={classes.took} style={{ left: `calc(${percent(shownRight)} + 6px)` }}>
        {label}
      </span>
    </>
  );
}

/** Distance below which parts cannot be distinguished, as a fraction of the visible range. */
const CLOSE = 0.002;

/** The span's parts on the critical path, as fractions of the visible range. Parts that touch on the screen are merged. */
function criticalParts(trace: Trace, index: number, from: number, length: number): [number, number][] {
  const { critical } = trace;
  const parts: [number, number][] = [];
  const last = critical.first[index + 1] ?? 0;
  // The parts are sorted from the latest to the earliest.
  for (let at = critical.first[index] ?? 0; at < last; at += 1) {
    const begin = Math.max(0, ((critical.from[at] ?? 0) - from) / length);
    const finish = Math.min(1, ((critical.to[at] ?? 0) - from) / length);
    const later = parts.at(-1);
    if (finish <= begin) {
      continue;
    }
    if (later !== undefined && later[0] - finish < CLOSE) {
      later[0] = begin;
    } else {
      parts.push([begin, finish]);
    }
  }
  return parts;
}
