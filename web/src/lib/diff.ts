import { diffArrays } from "diff";

/** An unchanged, added or removed part of a text. */
export type DiffPart = { readonly kind: "same" | "added" | "removed"; readonly text: string };

/** Of texts with more changes only the beginning and the end are compared, because the cost is the square of this number. */
const MAX_CHANGES = 600;

/** Differences between two texts, by word. */
export function diffWords(before: string, after: string): DiffPart[] {
  return diffTokens(splitWords(before), splitWords(after)).map(({ kind, tokens }) => ({
    kind,
    text: tokens.join(""),
  }));
}

/** Differences between two texts, by line, without line ends. */
export function diffLines(before: string, after: string): DiffPart[] {
  return diffTokens(splitLines(before), splitLines(after)).flatMap(({ kind, tokens }) =>
    tokens.map((text) => ({ kind, text })),
  );
}

/** A line with its difference, or the number of skipped lines. */
export type Hunk = { skipped: number } | { readonly line: DiffPart };

/** Skips unchanged lines except for `around` lines next to each change. */
export function hunks(lines: readonly DiffPart[], around = 3): Hunk[] {
  const result: Hunk[] = [];
  for (const [index, line] of lines.entries()) {
    const neighbours = lines.slice(Math.max(0, index - around), index + around + 1);
    const last = result.at(-1);
    if (neighbours.some(({ kind }) => kind !== "same")) {
      result.push({ line });
    } else if (last !== undefined && "skipped" in last) {
      last.skipped += 1;
    } else {
      result.push({ skipped: 1 });
    }
  }
  return result;
}

const splitWords = (text: string): string[] => text.match(/\w+|\s+|[^\w\s]/gu) ?? [];

const splitLines = (text: string): string[] => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

type Change = { readonly kind: DiffPart["kind"]; readonly tokens: readonly string[] };

function diffTokens(before: string[], after: string[]): Change[] {
  const changes = diffArrays(before, after, { maxEditLength: MAX_CHANGES });
  if (changes !== undefined) {
    return changes.map(({ added, removed, value }) => ({
      kind: added ? "added" : removed ? "removed" : "same",
      tokens: value,
    }));
  }
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before[start] === after[start]) {
    start += 1;
  }
  let end = 0;
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) {
    end += 1;
  }
  const parts: Change[] = [
    { kind: "same", tokens: before.slice(0, start) },
    { kind: "removed", tokens: before.slice(start, before.length - end) },
    { kind: "added", tokens: after.slice(start, after.length - end) },
    { kind: "same", tokens: before.slice(before.length - end) },
  ];
  return parts.filter(({ tokens }) => tokens.length > 0);
}
