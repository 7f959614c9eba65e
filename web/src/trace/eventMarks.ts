import { nanosBetween } from "../lib/time";
import { instantOfValue } from "./columns";
import { eventTimesOf } from "./details";
import type { Trace } from "./model";

/** Time of an event, relative to the start of the trace in nanoseconds. */
export type EventMark = { readonly at: number; readonly isException: boolean };

/** Maximum of the marks of one span. Exceptions come first. */
const MAX_MARKS = 100;

const marksByTrace = new WeakMap<Trace, Map<number, readonly EventMark[]>>();

/** The events of a span whose time is known. They are computed once: rows are rendered often. */
export function eventMarks(trace: Trace, index: number): readonly EventMark[] {
  let marks = marksByTrace.get(trace);
  if (marks === undefined) {
    marks = new Map();
    marksByTrace.set(trace, marks);
  }
  const known = marks.get(index) ?? computeMarks(trace, index);
  marks.set(index, known);
  return known;
}

function computeMarks(trace: Trace, index: number): EventMark[] {
  const span = trace.spans[index] ?? {};
  const start = instantOfValue(span[trace.columns.timestamp]);
  const startAt = trace.start[index] ?? Number.NaN;
  if (start === null || Number.isNaN(startAt)) {
    return [];
  }
  const isException = ({ name }: { name: string }) => name === "exception";
  const events = eventTimesOf(span, trace.columns);
  const ordered = [...events.filter(isException), ...events.filter((event) => !isException(event))];
  return ordered.slice(0, MAX_MARKS).flatMap((event) => {
    const instant = instantOfValue(event.at);
    return instant === null
      ? []
      : [{ at: startAt + nanosBetween(start, instant), isException: isException(event) }];
  });
}
