import type { Range } from "./range";

/** A zoom step in the chart. */
export type Zoom = { readonly from: Range; readonly to: Range };

function sameRange(a: Range, b: Range): boolean {
  return a.kind === "last"
    ? b.kind === "last" && a.text === b.text
    : b.kind === "absolute" && a.from === b.from && a.to === b.to;
}

/** The zoom steps that led to the current range: none if another action did, such as the browser's back button. */
export function zoomsLeadingTo(zooms: readonly Zoom[], range: Range): readonly Zoom[] {
  return zooms.slice(0, zooms.findLastIndex(({ to }) => sameRange(to, range)) + 1);
}
