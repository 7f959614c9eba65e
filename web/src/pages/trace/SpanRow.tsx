// biome-ignore-all lint/a11y/useSemanticElements: table elements cannot be positioned when only some rows exist
// biome-ignore-all lint/a11y/useFocusableInteractive: the focus stays on the grid, which names the active row
// biome-ignore-all lint/a11y/useKeyWithClickEvents: the page handles the keys
import { IconAlertCircleFilled, IconAlertTriangle, IconLockOpen } from "@tabler/icons-react";
import { memo } from "react";
import { SanitizedText } from "../../components/SanitizedText";
import { formatDuration } from "../../lib/duration";
import { countOf } from "../../lib/numbers";
import { eventMarks } from "../../trace/eventMarks";
import { Flag, isError } from "../../trace/flags";
import { nameOf, serviceNameOf, serviceOfSpan, type Trace } from "../../trace/model";
import page from "./trace.module.css";
import { serviceColourIn } from "./useColours";
import classes from "./waterfall.module.css";

const INDENT_PER_LEVEL = 12;
const MAX_NAME_LENGTH = 160;

type SpanRowProps = {
  trace: Trace;
  index: number;
  row: number;
  rowHeight: number;
  from: number;
  length: number;
  isCurrent: boolean;
  isOpen: boolean;
  isCollapsed: boolean;
  isMatch: boolean;
  /** Description of a matching span; `null` for other spans. */
  accessLabel: string | null;
  /** Maximum indentation in pixels; deeper spans show their depth as a number. */
  maxIndent: number;
  onOpen: (span: number) => void;
  onToggle: (span: number) => void;
};

/** A span of the waterfall. */
export const SpanRow = memo(function SpanRow(props: SpanRowProps) {
  const { trace, index, row, rowHeight, isCollapsed, maxIndent } = props;
  const flags = trace.flags[index] ?? 0;
  const depth = trace.depth[index] ?? 0;
  const children = trace.children[index] ?? 0;
  const levels = Math.min(depth, Math.max(1, Math.floor(maxIndent / INDENT_PER_LEVEL)));
  const colour = serviceColourIn(trace, serviceOfSpan(trace, index));
  const end = trace.end[index] ?? index + 1;
  const hiddenErrors = (trace.errorsBefore[end] ?? 0) - (trace.errorsBefore[index + 1] ?? 0);
  return (
    <div
      id={`span-${index}`}
      role="row"
      aria-rowindex={row + 2}
      aria-level={depth + 1}
      aria-expanded={children > 0 ? !isCollapsed : undefined}
      aria-selected={props.isCurrent}
      className={classes.row}
      data-current={props.isCurrent || undefined}
      data-open={props.isOpen || undefined}
      data-matched={props.isMatch || undefined}
      style={{ transform: `translateY(${row * rowHeight}px)` }}
      onClick={() => props.onOpen(index)}
    >
      <div role="gridcell" className={classes.name} style={{ paddingLeft: levels * INDENT_PER_LEVEL }}>
        {depth > levels && <span className={classes.depthNumber}>{depth}</span>}
        {children > 0 ? (
          // The keys ← and → do the same, so that the button is not in the tab order.
          <button
            type="button"
            tabIndex={-1}
            className={classes.expander}
            aria-label={isCollapsed ? "Expand" : "Collapse"}
            onClick={(event) => {
              event.stopPropagation();
              props.onToggle(index);
            }}
          >
            <svg viewBox="0 0 14 14" width={14} height={14} aria-hidden>
              <path
                d={isCollapsed ? "M5 3l4 4-4 4" : "M3 5l4 4 4-4"}
                fill="none"
                stroke="currentColor"
                strokeWidth={1.5}
              />
            </svg>
          </button>
        ) : (
          <span className={classes.noExpander} />
        )}
        <span className={classes.serviceStrip} style={{ background: colour }} aria-hidden />
        <Marks flags={flags} />
        {props.accessLabel !== null && (
          <IconLockOpen size={14} className={classes.accessMark} role="img" aria-label={props.accessLabel} />
        )}
        <span className={classes.names}>
          {/* The space is for screen readers, which read the row's texts together. */}
          <SanitizedText text={nameOf(trace, index)} maxLength={MAX_NAME_LENGTH} />{" "}
          <span className={classes.service}>
            <SanitizedText text={serviceNameOf(trace, index)} maxLength={MAX_NAME_LENGTH} />
          </span>
        </span>
        {isCollapsed && (
          <span className={classes.hiddenCount}>
            {(end - index - 1).toLocaleString("en")} more
            {hiddenErrors > 0 && <span className={page.errorText}>, {countOf(hiddenErrors, "error")}</span>}
          </span>
        )}
      </div>
      <div role="gridcell" className={classes.times}>
        <DurationBar {...props} colour={colour} />
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
      {(flags &
        (Flag.MissingParent | Flag.BeforeParent | Flag.Cycle | Flag.Duplicate | Flag.InvalidTimes)) !==
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

/** Bar of the span's time, with its events, its parts on the critical path and its duration. */
function DurationBar({ trace, index, from, length, colour }: SpanRowProps & { colour: string }) {
  const [start, duration] = [trace.start[index] ?? 0, trace.duration[index] ?? 0];
  const [left, right] = [(start - from) / length, (start + duration - from) / length];
  const label = formatDuration(duration);
  if (right < 0) {
    return <span className={classes.outsideLeft}>◂ {label}</span>;
  }
  if (left > 1) {
    return <span className={classes.outsideRight}>{label} ▸</span>;
  }
  const [shownLeft, shownRight] = [Math.max(left, 0), Math.min(right, 1)];
  const segments = criticalParts(trace, index, from, length);
  const marks = eventMarks(trace, index)
    .map(({ at, isException }) => ({ left: (at - from) / length, isException }))
    .filter(({ left }) => left >= 0 && left <= 1);
  const percent = (part: number) => `${part * 100}%`;
  return (
    <>
      <span
        className={classes.bar}
        style={{
          left: percent(shownLeft),
          width: percent(shownRight - shownLeft),
          background: colour,
        }}
      />
      {marks.map(({ left, isException }, mark) => (
        <span
          // biome-ignore lint/suspicious/noArrayIndexKey: events of a span have no other identity
          key={mark}
          className={classes.event}
          data-exception={isException || undefined}
          style={{ left: percent(left) }}
        />
      ))}
      {segments.map(([partStart, partEnd]) => (
        <span
          key={partStart}
          className={classes.critical}
          style={{
            left: percent(partStart),
            width: percent(partEnd - partStart),
          }}
        />
      ))}
      <span className={classes.duration} style={{ left: `calc(${percent(shownRight)} + 6px)` }}>
        {label}
      </span>
    </>
  );
}

/** Distance below which parts cannot be distinguished, as a fraction of the visible range. */
const MERGE_DISTANCE = 0.002;

/** The span's parts on the critical path, as fractions of the visible range. Parts that touch on the screen are merged. */
function criticalParts(trace: Trace, index: number, from: number, length: number): [number, number][] {
  const { criticalPath } = trace;
  const parts: [number, number][] = [];
  const last = criticalPath.first[index + 1] ?? 0;
  // The parts are sorted from the latest to the earliest.
  for (let i = criticalPath.first[index] ?? 0; i < last; i += 1) {
    const partStart = Math.max(0, ((criticalPath.from[i] ?? 0) - from) / length);
    const partEnd = Math.min(1, ((criticalPath.to[i] ?? 0) - from) / length);
    const previous = parts.at(-1);
    if (partEnd <= partStart) {
      continue;
    }
    if (previous !== undefined && previous[0] - partEnd < MERGE_DISTANCE) {
      previous[0] = partStart;
    } else {
      parts.push([partStart, partEnd]);
    }
  }
  return parts;
}
