import type { Candidate } from "./fields";

export type SortOrder = "frequency" | "name";

/** Filter and order of the list of fields. */
export type FieldListOptions = {
  text: string;
  container: string;
  order: SortOrder;
  onlyKeys: ReadonlySet<string> | null;
  /** Columns that are listed first among the columns that every span has. */
  leadingColumns: readonly string[];
};

/** Container of separate columns. */
export const COLUMNS_CONTAINER = "";
export const ALL_CONTAINERS = "*";

/** The containers of fields (a map column, or none) with their counts: columns first, then maps by name. */
export function containersOf(candidates: Candidate[]): { container: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const { map } of candidates) {
    counts.set(map, (counts.get(map) ?? 0) + 1);
  }
  return [...counts]
    .map(([container, count]) => ({ container, count }))
    .sort((a, b) => a.container.localeCompare(b.container));
}

/** Sort key for the frequency of a field: columns occur on every span, and unsampled fields come last. */
function frequencyRank(
  { map, name, rows, sampledRows }: Candidate,
  leadingColumns: readonly string[],
): number {
  if (rows === null) {
    return map !== "" ? -1 : leadingColumns.includes(name) ? 3 : 2;
  }
  return sampledRows === 0 ? 0 : rows / sampledRows;
}

export function listFields(
  candidates: Candidate[],
  { text, container, order, onlyKeys, leadingColumns }: FieldListOptions,
): Candidate[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const matches = candidates.filter((candidate) => {
    const searchedText = [candidate.ref, ...candidate.examples].join("\n").toLowerCase();
    return (
      (onlyKeys === null || onlyKeys.has(candidate.key)) &&
      (container === ALL_CONTAINERS || candidate.map === container) &&
      words.every((word) => searchedText.includes(word))
    );
  });
  const byName = (a: Candidate, b: Candidate) => a.ref.localeCompare(b.ref);
  return order === "name"
    ? matches.sort(byName)
    : matches.sort(
        (a, b) => frequencyRank(b, leadingColumns) - frequencyRank(a, leadingColumns) || byName(a, b),
      );
}
