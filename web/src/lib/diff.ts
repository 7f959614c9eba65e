/** An unchanged, added or removed part of a text. */
export type TextDifference = { readonly kind: "same" | "added" | "removed"; readonly text: string };

/** Of longer texts only the beginning and the end are compared, because the cost is the product of the lengths. */
const MOST = 600;

/** Differences between two texts, by word. */
export function textDifferences(before: string, after: string): TextDifference[] {
  const found: { kind: TextDifference["kind"]; text: string }[] = [];
  for (const [kind, text] of compared(words(before), words(after))) {
    const last = found.at(-1);
    if (last?.kind === kind) {
      last.text += text;
    } else {
      found.push({ kind, text });
    }
  }
  return found;
}

/** Differences between two texts, by line, without line ends. */
export function lineDifferences(before: string, after: string): TextDifference[] {
  return compared(lines(before), lines(after)).map(([kind, text]) => ({ kind, text }));
}

/** A line with its difference, or the number of skipped lines. */
export type Hunk = { readonly skipped: number } | { readonly line: TextDifference };

/** Skips unchanged lines except for `around` lines next to each change. */
export function hunks(lines: readonly TextDifference[], around = 3): Hunk[] {
  const near = new Set<number>();
  for (const [place, { kind }] of lines.entries()) {
    for (let other = place - around; kind !== "same" && other <= place + around; other += 1) {
      near.add(other);
    }
  }
  const found: Hunk[] = [];
  let skipped = 0;
  const skip = () => {
    if (skipped > 0) {
      found.push({ skipped });
      skipped = 0;
    }
  };
  for (const [place, line] of lines.entries()) {
    if (near.has(place)) {
      skip();
      found.push({ line });
    } else {
      skipped += 1;
    }
  }
  skip();
  return found;
}

const words = (text: string): string[] => text.match(/\w+|\s+|[^\w\s]/gu) ?? [];

const lines = (text: string): string[] => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

function compared(before: readonly string[], after: readonly string[]): [TextDifference["kind"], string][] {
  if (before.length <= MOST && after.length <= MOST) {
    return between(before, after);
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
    tokens.map((text): [TextDifference["kind"], string] => ["same", text]);
  return [
    ...same(before.slice(0, start)),
    ...between(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...same(before.slice(before.length - end)),
  ];
}

function between(old: readonly string[], now: readonly string[]): [TextDifference["kind"], string][] {
  if (old.length > MOST || now.length > MOST) {
    return [
      ...old.map((text): [TextDifference["kind"], string] => ["removed", text]),
      ...now.map((text): [TextDifference["kind"], string] => ["added", text]),
    ];
  }
  const lengths = commonLengths(old, now);
  const found: [TextDifference["kind"], string][] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    const [one, other] = [old[i], now[j]];
    if (one !== undefined && one === other) {
      found.push(["same", one]);
      i += 1;
      j += 1;
    } else if (
      one !== undefined &&
      (other === undefined || common(lengths, i + 1, j) >= common(lengths, i, j + 1))
    ) {
      found.push(["removed", one]);
      i += 1;
    } else {
      found.push(["added", other ?? ""]);
      j += 1;
    }
  }
  return found;
}

const common = (lengths: readonly Uint16Array[], i: number, j: number) => lengths[i]?.[j] ?? 0;

/** Returns the length of the longest common subsequence for all pairs of suffixes of two lists. */
function commonLengths(old: readonly string[], now: readonly string[]): Uint16Array[] {
  const lengths = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const row = lengths[i];
      if (row !== undefined) {
        row[j] =
          old[i] === now[j]
            ? common(lengths, i + 1, j + 1) + 1
            : Math.max(common(lengths, i + 1, j), common(lengths, i, j + 1));
      }
    }
  }
  return lengths;
}
