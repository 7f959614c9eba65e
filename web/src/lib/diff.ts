/** An unchanged, added or removed part of a text. */
export type DiffPart = { readonly kind: "same" | "added" | "removed"; readonly text: string };

/** Of longer texts only the beginning and the end are compared, because the cost is the product of the lengths. */
const MAX_TOKENS = 600;

/** Differences between two texts, by word. */
export function diffWords(before: string, after: string): DiffPart[] {
  const parts: { kind: DiffPart["kind"]; text: string }[] = [];
  for (const [kind, text] of diffTokens(splitWords(before), splitWords(after))) {
    const last = parts.at(-1);
    if (last?.kind === kind) {
      last.text += text;
    } else {
      parts.push({ kind, text });
    }
  }
  return parts;
}

/** Differences between two texts, by line, without line ends. */
export function diffLines(before: string, after: string): DiffPart[] {
  return diffTokens(splitLines(before), splitLines(after)).map(([kind, text]) => ({ kind, text }));
}

/** A line with its difference, or the number of skipped lines. */
export type Hunk = { readonly skipped: number } | { readonly line: DiffPart };

/** Skips unchanged lines except for `around` lines next to each change. */
export function hunks(lines: readonly DiffPart[], around = 3): Hunk[] {
  const nearChange = new Set<number>();
  for (const [index, { kind }] of lines.entries()) {
    for (let neighbour = index - around; kind !== "same" && neighbour <= index + around; neighbour += 1) {
      nearChange.add(neighbour);
    }
  }
  const result: Hunk[] = [];
  let skipped = 0;
  const endSkipped = () => {
    if (skipped > 0) {
      result.push({ skipped });
      skipped = 0;
    }
  };
  for (const [index, line] of lines.entries()) {
    if (nearChange.has(index)) {
      endSkipped();
      result.push({ line });
    } else {
      skipped += 1;
    }
  }
  endSkipped();
  return result;
}

const splitWords = (text: string): string[] => text.match(/\w+|\s+|[^\w\s]/gu) ?? [];

const splitLines = (text: string): string[] => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

function diffTokens(before: readonly string[], after: readonly string[]): [DiffPart["kind"], string][] {
  if (before.length <= MAX_TOKENS && after.length <= MAX_TOKENS) {
    return lcsDiff(before, after);
  }
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before[start] === after[start]) {
    start += 1;
  }
  let end = 0;
  while (end < shorter - start && before[before.length - 1 - end] === after[after.length - 1 - end]) {
    end += 1;
  }
  const same = (tokens: readonly string[]) =>
    tokens.map((text): [DiffPart["kind"], string] => ["same", text]);
  return [
    ...same(before.slice(0, start)),
    ...lcsDiff(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...same(before.slice(before.length - end)),
  ];
}

function lcsDiff(before: readonly string[], after: readonly string[]): [DiffPart["kind"], string][] {
  if (before.length > MAX_TOKENS || after.length > MAX_TOKENS) {
    return [
      ...before.map((text): [DiffPart["kind"], string] => ["removed", text]),
      ...after.map((text): [DiffPart["kind"], string] => ["added", text]),
    ];
  }
  const lengths = lcsLengths(before, after);
  const parts: [DiffPart["kind"], string][] = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    const [removed, added] = [before[i], after[j]];
    if (removed !== undefined && removed === added) {
      parts.push(["same", removed]);
      i += 1;
      j += 1;
    } else if (
      removed !== undefined &&
      (added === undefined || lengthAt(lengths, i + 1, j) >= lengthAt(lengths, i, j + 1))
    ) {
      parts.push(["removed", removed]);
      i += 1;
    } else {
      parts.push(["added", added ?? ""]);
      j += 1;
    }
  }
  return parts;
}

const lengthAt = (lengths: readonly Uint16Array[], i: number, j: number) => lengths[i]?.[j] ?? 0;

/** Returns the length of the longest common subsequence for all pairs of suffixes of two lists. */
function lcsLengths(before: readonly string[], after: readonly string[]): Uint16Array[] {
  const lengths = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      const row = lengths[i];
      if (row !== undefined) {
        row[j] =
          before[i] === after[j]
            ? lengthAt(lengths, i + 1, j + 1) + 1
            : Math.max(lengthAt(lengths, i + 1, j), lengthAt(lengths, i, j + 1));
      }
    }
  }
  return lengths;
}
