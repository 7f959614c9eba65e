import type { Candidate } from "./fields";

export type Order = "frequency" | "name";

/** Filter and order of the list of fields. */
export type Listing = {
  text: string;
  place: string;
  order: Order;
  only: ReadonlySet<string> | null;
  /** Columns that are listed first among the columns that every span has. */
  leading: readonly string[];
};

/** Place of separate columns. */
export const COLUMNS = "";
export const EVERYWHERE = "*";

/** The places of fields with their counts: columns first, then maps by name. */
export function placesOf(candidates: Candidate[]): { place: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const { map } of candidates) {
    counts.set(map, (counts.get(map) ?? 0) + 1);
  }
  return [...counts]
    .map(([place, count]) => ({ place, count }))
    .sort((one, other) => one.place.localeCompare(other.place));
}

/** Sort key for the frequency of a field: columns occur on every span, and unsampled fields come last. */
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
