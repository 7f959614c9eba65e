import { VisuallyHidden } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconAlertCircle, IconAlertTriangle, IconArrowDown, IconCheck } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { type CSSProperties, type KeyboardEvent, memo, type SyntheticEvent, useMemo, useRef } from "react";
import type { Api } from "../../api/client";
import { Time } from "../../components/Time";
import { Visible } from "../../components/Visible";
import { serviceColour } from "../../lib/colours";
import { formatDuration } from "../../lib/duration";
import { NO_NAME, nameOrNone } from "../../lib/names";
import { useCopy } from "../../lib/useCopy";
import { visible } from "../../lib/visible";
import { COLUMNS, type Column } from "./columns";
import classes from "./ResultsTable.module.css";
import type { Sort } from "./sorting";
import { traceSearch } from "./traceLink";

type Trace = Api["TraceSummary"];

const SORT_OF: Partial<Record<Column, Sort>> = {
  start: "newest",
  duration: "longest",
  spans: "spans",
  errors: "errors",
};

/** The found traces. The browser does not lay out rows outside of the viewport, so that thousands of rows scroll smoothly. */
export function ResultsTable({
  traces,
  columns,
  sort,
  onSort,
  onNearEnd,
  onMark,
}: {
  traces: readonly Trace[];
  columns: readonly Column[];
  sort: Sort;
  onSort: (sort: Sort) => void;
  /** Called when the keyboard selection comes near the last row. */
  onNearEnd: () => void;
  onMark: (id: string | null) => void;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const longest = traces.reduce((most, trace) => Math.max(most, trace.duration_nanos ?? 0), 1);

  const go = (step: number | "first" | "last") => {
    const links = [...(body.current?.querySelectorAll<HTMLElement>("a[data-result]") ?? [])];
    const at = links.indexOf(document.activeElement as HTMLElement);
    const to = step === "first" ? 0 : step === "last" ? links.length - 1 : at === -1 ? 0 : at + step;
    links[Math.min(links.length - 1, Math.max(0, to))]?.focus();
    if (to >= links.length - 5) {
      onNearEnd();
    }
  };
  useHotkeys([
    ["j", () => go(1)],
    ["k", () => go(-1)],
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
    const known = step[event.key as keyof typeof step];
    if (known !== undefined && !event.altKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      go(known);
    }
  };
  const mark = (event: SyntheticEvent) => {
    const row = event.target instanceof Element ? event.target.closest("tr") : null;
    onMark(row?.dataset.trace ?? null);
  };

  // The elements keep their identity, so that selecting a row does not render thousands.
  const rows = useMemo(
    () => traces.map((trace) => <Row key={trace.trace_id} trace={trace} columns={columns} />),
    [traces, columns],
  );
  const template = ["minmax(220px, 1.4fr)", ...columns.map((column) => COLUMNS[column].width)].join(" ");
  const style = { "--columns": template, "--longest": longest } as CSSProperties;
  return (
    <div className={classes.box}>
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
              <Head key={column} column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody
          ref={body}
          onKeyDown={onKeyDown}
          onMouseOver={mark}
          onFocus={mark}
          onMouseLeave={() => onMark(null)}
        >
          {rows}
        </tbody>
      </table>
    </div>
  );
}

function Head({ column, sort, onSort }: { column: Column; sort: Sort; onSort: (sort: Sort) => void }) {
  const own = SORT_OF[column];
  const { label } = COLUMNS[column];
  if (own === undefined) {
    return (
      <th scope="col" data-column={column}>
        {label}
      </th>
    );
  }
  return (
    <th scope="col" data-column={column} aria-sort={own === sort ? "descending" : "none"}>
      <button
        type="button"
        className={classes.sort}
        onClick={() => onSort(own)}
        title={own === "newest" ? "The service's order" : "Sorts the results that are loaded"}
      >
        {label}
        {own === sort && <IconArrowDown size={13} aria-hidden />}
      </button>
    </th>
  );
}

const Row = memo(function Row({ trace, columns }: { trace: Trace; columns: readonly Column[] }) {
  const name = nameOrNone(trace.root_name);
  return (
    <tr className={classes.row} data-trace={trace.trace_id}>
      <td className={classes.root}>
        <Link
          to="/trace/$traceId"
          params={{ traceId: trace.trace_id }}
          search={traceSearch(trace)}
          preload={false}
          className={classes.link}
          data-result
          title={visible(name).slice(0, 2_000)}
        >
          {name === NO_NAME ? <em>{NO_NAME}</em> : <Visible text={name} most={160} />}
        </Link>
        {trace.root_service !== null && trace.root_service !== "" && (
          <span className={classes.under}>
            <Service name={trace.root_service} />
          </span>
        )}
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
        <span title="No column is known to hold durations">–</span>
      ) : (
        <span className={classes.duration}>
          <span className={classes.number}>
            {formatDuration(trace.duration_nanos)}
            {trace.duration_invalid && (
              <span title="A span's duration is below zero and counts as 0">
                {" "}
                <IconAlertTriangle size={13} aria-label="with a duration below zero" />
              </span>
            )}
          </span>
          <span className={classes.track} aria-hidden>
            <span
              className={classes.bar}
              data-error={(trace.error_count ?? 0) > 0 || undefined}
              style={{ "--duration": trace.duration_nanos } as CSSProperties}
            />
          </span>
        </span>
      );
    case "services":
      return <Services names={trace.services} root={trace.root_service} />;
    case "spans":
      return (
        <>
          {trace.span_count.toLocaleString("en")}
          <span className={classes.unit}> {trace.span_count === 1 ? "span" : "spans"}</span>
        </>
      );
    case "errors":
      return trace.error_count === null ? (
        <span title="No column is known to hold the status">–</span>
      ) : trace.error_count === 0 ? (
        <span className={classes.none}>
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
      <span className={classes.dot} style={{ background: serviceColour(name) }} aria-hidden />
      <Visible text={name} most={60} />
    </span>
  );
}

const MOST_SERVICES = 3;

/** The root's service is already shown below the operation. */
function Services({ names, root }: { names: readonly string[]; root: string | null }) {
  const ordered = names.filter((name) => name !== root);
  const rest = ordered.length - MOST_SERVICES;
  return (
    <span className={classes.services} title={visible(names.join(", ")).slice(0, 2_000)}>
      {ordered.slice(0, MOST_SERVICES).map((name) => (
        <Service key={name} name={name} />
      ))}
      {rest > 0 && <span className={classes.none}>+{rest}</span>}
    </span>
  );
}

function TraceId({ id }: { id: string }) {
  const { copied, copy } = useCopy();
  const shown = visible(id);
  return (
    <button
      type="button"
      className={classes.id}
      title={`${shown.slice(0, 300)} – copy`}
      onClick={() => void copy(id)}
    >
      {copied ? (
        <>
          <IconCheck size={13} aria-hidden /> copied
        </>
      ) : (
        <>
          <VisuallyHidden>Copy trace id </VisuallyHidden>
          <Visible text={id} most={12} />
        </>
      )}
    </button>
  );
}

/** As tall as the rows, so that the layout does not move. */
export function ResultsSkeleton() {
  return (
    <div className={classes.waiting} aria-hidden>
      {Array.from({ length: 9 }, (_, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: all rows are alike
        <div key={place} className={classes.shadow}>
          <span style={{ width: `${22 + ((place * 7) % 12)}%` }} />
          <span style={{ width: "14%" }} />
          <span style={{ width: `${10 + ((place * 5) % 9)}%` }} />
        </div>
      ))}
    </div>
  );
}
