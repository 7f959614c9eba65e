import type { Candidate } from "./fields";

export type Order = "frequency" | "name";

/** Which of the fields are listed, and how. */
export type Listing = {
  text: string;
  place: string;
  order: Order;
  only: ReadonlySet<string> | null;
  /** Columns that come first among those that every span has. */
  leading: readonly string[];
};

/** Columns of their own, as a place to look in. */
export const COLUMNS = "";
export const EVERYWHERE = "*";

/** The places that fields are in, with how many are in each; columns first, then maps by name. */
export function placesOf(candidates: Candidate[]): { place: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const { map } of candidates) {
    counts.set(map, (counts.get(map) ?? 0) + 1);
  }
  return [...counts]
    .map(([place, count]) => ({ place, count }))
    .sort((one, other) => one.place.localeCompare(other.place));
}

/** How often a field occurs: columns are on every span, what was not sampled comes last. */
function share({ map, name, rows, sampledRows }: Candidate, leading: readonly string[]): number {
  if (rows === null) {
    return map !== "" ? -1 : leading.includes(name) ? 3 : 2;
  }
  return sampledRows === 0 ? 0 : rows / sampledRows;
}

export function listed(candidates: Candidate[], { text, place, order, only, leading }: Listing): Candidate[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const found = candidates.filter((candidate) => {
    const searched = [candidate.ref, ...candidate.examples].join("\n").toLowerCase();
    return (
      (only === null || only.has(candidate.key)) &&
      (place === EVERYWHERE || candidate.map === place) &&
      words.every((word) => searched.includes(word))
    );
  });
  const byName = (one: Candidate, other: Candidate) => one.ref.localeCompare(other.ref);
  return order === "name"
    ? found.sort(byName)
    : found.sort((one, other) => share(other, leading) - share(one, leading) || byName(one, other));
}
