import type { Range } from "./range";

/** A step closer in the chart. */
export type Zoom = { readonly from: Range; readonly to: Range };

function same(one: Range, other: Range): boolean {
  return one.kind === "last"
    ? other.kind === "last" && one.text === other.text
    : other.kind === "absolute" && one.from === other.from && one.to === other.to;
}

/** The steps that led to the range that is shown: none, when something else did, such as the browser's way back. */
export function zoomsTo(zooms: readonly Zoom[], range: Range): readonly Zoom[] {
  return zooms.slice(0, zooms.findLastIndex(({ to }) => same(to, range)) + 1);
}
