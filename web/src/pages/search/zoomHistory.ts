import type { Range } from "./range";

/** A zoom step in the chart. */
export type Zoom = { readonly from: Range; readonly to: Range };

function same(one: Range, other: Range): boolean {
  return one.kind === "last"
    ? other.kind === "last" && one.text === other.text
    : other.kind === "absolute" && one.from === other.from && one.to === other.to;
}

/** The zoom steps that led to the current range: none if another action did, such as the browser's back button. */
export function zoomsTo(zooms: readonly Zoom[], range: Range): readonly Zoom[] {
  return zooms.slice(0, zooms.findLastIndex(({ to }) => same(to, range)) + 1);
}
