/** Optional columns of the results table. */
export const COLUMNS = {
  start: { label: "Start", width: "minmax(208px, 0.4fr)" },
  duration: { label: "Duration", width: "minmax(150px, 0.8fr)" },
  services: { label: "Other services", width: "minmax(140px, 1fr)" },
  spans: { label: "Spans", width: "64px" },
  errors: { label: "Errors", width: "64px" },
  matched: { label: "Matching spans", width: "116px" },
  id: { label: "Trace id", width: "124px" },
} as const;

export type Column = keyof typeof COLUMNS;

export const ALL_COLUMNS = Object.keys(COLUMNS) as Column[];
export const DEFAULT_COLUMNS: readonly Column[] = ["start", "duration", "services", "spans", "errors", "id"];

export function isColumn(text: string): text is Column {
  return Object.hasOwn(COLUMNS, text);
}
