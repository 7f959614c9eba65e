/** What is to be said of a span beside its values; bits of a trace's `flags`. */
export const Flag = {
  /** Its status is an error. */
  Error: 1,
  /** One of its events is an exception. */
  Exception: 2,
  /** It names a parent that is not in the trace. */
  MissingParent: 4,
  /** It begins before its parent. */
  BeforeParent: 8,
  /** It ends after its parent. */
  AfterParent: 16,
  /** Its parents lead back to itself, so that it stands at the top. */
  Cycle: 32,
  /** Another span before it has the same id. */
  Duplicate: 64,
  /** Its start or duration could not be read. */
  Untimed: 128,
  /** Its duration is below zero, or wrapped round there, and counts as 0. */
  InvalidDuration: 256,
} as const;

/** Whether a span counts as an error, wherever errors are counted or marked: by its status or by an exception. */
export function isError(flags: number | undefined): boolean {
  return ((flags ?? 0) & (Flag.Error | Flag.Exception)) !== 0;
}
