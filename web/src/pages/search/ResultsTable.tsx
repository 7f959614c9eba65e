import { VisuallyHidden } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconAlertCircle, IconAlertTriangle, IconArrowDown, IconCheck } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { type CSSProperties, type KeyboardEvent, memo, type SyntheticEvent, useMemo, useRef } from "react";
import type { Api } from "../../api/client";
import { SanitizedText } from "../../components/SanitizedText";
import { ServiceDot } from "../../components/ServiceDot";
import { Time } from "../../components/Time";
import { serviceColour } from "../../lib/colours";
import { formatDuration } from "../../lib/duration";
import { NO_NAME, nameOrPlaceholder } from "../../lib/names";
import { sanitize } from "../../lib/sanitize";
import { useCopy } from "../../lib/useCopy";
import { COLUMNS, type Column } from "./columns";
import { ORDERS, type Order } from "./order";
import classes from "./ResultsTable.module.css";
import { traceLinkSearch } from "./traceLink";

type Trace = Api["TraceSummary"];

const ORDER_OF: Partial<Record<Column, Order>> = {
  start: "newest",
  duration: "longest",
  spans: "spans",
  errors: "errors",
};

/** The found traces. The browser does not lay out rows outside of the viewport, so that thousands of rows scroll smoothly. */
export function ResultsTable({
  traces,
  columns,
  order,
  onOrder,
  onNearEnd,
  onHighlight,
}: {
  traces: readonly Trace[];
  columns: readonly Column[];
  order: Order;
  onOrder: (order: Order) => void;
  /** Called when the keyboard selection comes near the last row. */
  onNearEnd: () => void;
  onHighlight: (id: string | null) => void;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const durations = traces.map((trace) => trace.duration_nanos ?? 0).filter((nanos) => nanos > 0);
  const minDuration = durations.reduce((min, nanos) => Math.min(min, nanos), Number.MAX_VALUE);
  const maxDuration = durations.reduce((max, nanos) => Math.max(max, nanos), 1);

  const moveFocus = (step: number | "first" | "last") => {
    const links = [...(body.current?.querySelectorAll<HTMLElement>("a[data-result]") ?? [])];
    const currentIndex = links.indexOf(document.activeElement as HTMLElement);
    const targetIndex =
      step === "first"
        ? 0
        : step === "last"
          ? links.length - 1
          : currentIndex === -1
            ? 0
            : currentIndex + step;
    links[Math.min(links.length - 1, Math.max(0, targetIndex))]?.focus();
    if (targetIndex >= links.length - 5) {
      onNearEnd();
    }
  };
  useHotkeys([
    ["j", () => moveFocus(1)],
    ["k", () => moveFocus(-1)],
  ]);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: 15,
      PageUp: -15,
      Home: "first",
      End: "last",
    } as const;
    const keyStep = step[event.key as keyof typeof step];
    if (keyStep !== undefined && !event.altKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      moveFocus(keyStep);
    }
  };
  const highlight = (event: SyntheticEvent) => {
    const row = event.target instanceof Element ? event.target.closest("tr") : null;
    onHighlight(row?.dataset.trace ?? null);
  };

  // The elements keep their identity, so that selecting a row does not render thousands.
  const rows = useMemo(
    () => traces.map((trace) => <ResultRow key={trace.trace_id} trace={trace} columns={columns} />),
    [traces, columns],
  );
  const gridTemplate = ["minmax(220px, 1.4fr)", ...columns.map((column) => COLUMNS[column].width)].join(" ");
  // The bars have a logarithmic scale, like the chart; the shortest duration still has a visible bar.
  const start = Math.min(minDuration, maxDuration) / 2;
  const style = { "--columns": gridTemplate, "--start": start, "--longest": maxDuration } as CSSProperties;
  return (
    <div className={classes.container}>
      <table
        className={classes.table}
        style={style}
        aria-label="Traces found"
        aria-rowcount={traces.length + 1}
      >
        <thead>
          <tr className={classes.head}>
            <th scope="col">Root operation</th>
            {columns.map((column) => (
              <HeaderCell key={column} column={column} order={order} onOrder={onOrder} />
            ))}
          </tr>
        </thead>
        <tbody
          ref={body}
          onKeyDown={onKeyDown}
          onMouseOver={highlight}
          onFocus={highlight}
          onMouseLeave={() => onHighlight(null)}
        >
          {rows}
        </tbody>
      </table>
    </div>
  );
}

type HeaderCellProps = { column: Column; order: Order; onOrder: (order: Order) => void };

function HeaderCell({ column, order, onOrder }: HeaderCellProps) {
  const columnOrder = ORDER_OF[column];
  const { label } = COLUMNS[column];
  if (columnOrder === undefined) {
    return (
      <th scope="col" data-column={column}>
        {label}
      </th>
    );
  }
  return (
    <th scope="col" data-column={column} aria-sort={columnOrder === order ? "descending" : "none"}>
      <button
        type="button"
        className={classes.sort}
        onClick={() => onOrder(columnOrder)}
        title={ORDERS[columnOrder].label}
      >
        {label}
        {columnOrder === order && <IconArrowDown size={13} aria-hidden />}
      </button>
    </th>
  );
}

const ResultRow = memo(function ResultRow({ trace, columns }: { trace: Trace; columns: readonly Column[] }) {
  const name = nameOrPlaceholder(trace.root_name);
  return (
    <tr className={classes.row} data-trace={trace.trace_id}>
      <td className={classes.root}>
        {trace.root_service !== null && trace.root_service !== "" && (
          <span className={classes.rootService}>
            <Service name={trace.root_service} />
          </span>
        )}
        <Link
          to="/trace/$traceId"
          params={{ traceId: trace.trace_id }}
          search={traceLinkSearch(trace)}
          preload={false}
          className={classes.link}
          data-result
          title={sanitize(name).slice(0, 2_000)}
        >
          {name === NO_NAME ? <em>{NO_NAME}</em> : <SanitizedText text={name} maxLength={160} />}
        </Link>
      </td>
      {columns.map((column) => (
        <td key={column} data-column={column}>
          <Cell column={column} trace={trace} />
        </td>
      ))}
    </tr>
  );
});

function Cell({ column, trace }: { column: Column; trace: Trace }) {
  switch (column) {
    case "start":
      return <Time at={trace.start} />;
    case "duration":
      return trace.duration_nanos === null ? (
        <span title="No duration column is configured">–</span>
      ) : (
        <span className={classes.duration}>
          <span className={classes.number}>
            {formatDuration(trace.duration_nanos)}
            {trace.duration_invalid && (
              <span title="A span has a negative duration, which counts as 0">
                {" "}
                <IconAlertTriangle size={13} aria-label="with a negative duration" />
              </span>
            )}
          </span>
          <span className={classes.track} aria-hidden>
            <span
              className={classes.bar}
              data-error={(trace.error_count ?? 0) > 0 || undefined}
              style={{ "--duration": Math.max(1, trace.duration_nanos) } as CSSProperties}
            />
          </span>
        </span>
      );
    case "services":
      return <ServiceList names={trace.services} root={trace.root_service} />;
    case "spans":
      return (
        <>
          {trace.span_count.toLocaleString("en")}
          <span className={classes.unit}> {trace.span_count === 1 ? "span" : "spans"}</span>
        </>
      );
    case "errors":
      return trace.error_count === null ? (
        <span title="No status column is configured">–</span>
      ) : trace.error_count === 0 ? (
        <span className={classes.secondary}>
          0<span className={classes.unit}> errors</span>
        </span>
      ) : (
        <span className={classes.error}>
          <IconAlertCircle size={14} aria-hidden /> {trace.error_count.toLocaleString("en")}
          <span className={classes.unit}> {trace.error_count === 1 ? "error" : "errors"}</span>
        </span>
      );
    case "matched":
      return (
        <>
          {/* The service returns at most twenty ids. */}
          {trace.matched_span_ids.length >= 20 ? "20+" : trace.matched_span_ids.length}
          <span className={classes.unit}> matching spans</span>
        </>
      );
    case "id":
      return <TraceId id={trace.trace_id} />;
  }
}

function Service({ name }: { name: string }) {
  return (
    <span className={classes.service}>
      <ServiceDot colour={serviceColour(name)} />
      <SanitizedText text={name} maxLength={60} />
    </span>
  );
}

const MAX_SERVICES = 3;

/** The root's service is already shown before the operation. */
function ServiceList({ names, root }: { names: readonly string[]; root: string | null }) {
  const otherServices = names.filter((name) => name !== root);
  const hiddenCount = otherServices.length - MAX_SERVICES;
  return (
    <span className={classes.services} title={sanitize(names.join(", ")).slice(0, 2_000)}>
      {otherServices.slice(0, MAX_SERVICES).map((name) => (
        <Service key={name} name={name} />
      ))}
      {hiddenCount > 0 && <span className={classes.secondary}>+{hiddenCount}</span>}
    </span>
  );
}

function TraceId({ id }: { id: string }) {
  const { copied, copy } = useCopy();
  const sanitizedId = sanitize(id);
  return (
    <button
      type="button"
      className={classes.id}
      title={`${sanitizedId.slice(0, 300)} – copy`}
      onClick={() => void copy(id)}
    >
      {copied ? (
        <>
          <IconCheck size={13} aria-hidden /> copied
        </>
      ) : (
        <>
          <VisuallyHidden>Copy trace id </VisuallyHidden>
          <SanitizedText text={id} maxLength={12} />
        </>
      )}
    </button>
  );
}

/** As tall as the rows, so that the layout does not move. */
export function ResultsSkeleton() {
  return (
    <div className={classes.skeleton} aria-hidden>
      {Array.from({ length: 18 }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: all rows are alike
        <div key={index} className={classes.skeletonRow}>
          <span style={{ width: `${22 + ((index * 7) % 12)}%` }} />
          <span style={{ width: "14%" }} />
          <span style={{ width: `${10 + ((index * 5) % 9)}%` }} />
        </div>
      ))}
    </div>
  );
}
