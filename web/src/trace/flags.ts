/** Properties of a span that the page marks; bits of a trace's `flags`. */
export const Flag = {
  /** The status is an error. */
  Error: 1,
  /** An event is an exception. */
  Exception: 2,
  /** The parent is not in the trace. */
  MissingParent: 4,
  /** The span starts before its parent. */
  BeforeParent: 8,
  /** The span ends after its parent. */
  AfterParent: 16,
  /** The span is part of a parent cycle, which is cut so that the span is at the top level. */
  Cycle: 32,
  /** An earlier span has the same id. */
  Duplicate: 64,
  /** The start or duration could not be parsed. */
  InvalidTimes: 128,
  /** The duration is negative, or wrapped around below zero, and counts as 0. */
  InvalidDuration: 256,
} as const;

/** Whether a span counts as an error, by its status or an exception. Used wherever errors are counted or marked. */
export function isError(flags: number | undefined): boolean {
  return ((flags ?? 0) & (Flag.Error | Flag.Exception)) !== 0;
}
