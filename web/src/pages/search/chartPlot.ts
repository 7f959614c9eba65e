import { parseInstant } from "../../lib/time";

/** Margins around the plot of a chart, in pixels: equal in all charts over time, so that their times are below each other. */
export const PLOT_MARGIN = { left: 58, right: 12 } as const;

/** Milliseconds since the epoch. */
export function millis(time: string): number {
  const instant = parseInstant(time);
  return instant === null ? Number.NaN : instant.seconds * 1000 + instant.nanos / 1e6;
}
