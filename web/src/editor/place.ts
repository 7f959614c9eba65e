/** Where a remark of the service stands in an expression: from 1, in code points, lines ending with a line feed. */
export type Place = { readonly line: number; readonly column: number; readonly length: number };

/** Offsets in a JavaScript string, in UTF-16 units; `to` is exclusive. */
export type Range = { readonly from: number; readonly to: number };

/** The offset so many code points after another; not past the end of the text. */
function forward(text: string, from: number, points: number): number {
  let at = from;
  for (let left = points; left > 0 && at < text.length; left -= 1) {
    at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  }
  return at;
}

/** The part of a text that a place covers. A place that does not fit the text is moved into it.
 *
 * A carriage return is a character like any other there, so that texts from other systems are counted alike. */
export function rangeOf(text: string, { line, column, length }: Place): Range {
  let start = 0;
  for (let left = line - 1; left > 0; left -= 1) {
    const end = text.indexOf("\n", start);
    if (end === -1) {
      break;
    }
    start = end + 1;
  }
  const from = forward(text, start, column - 1);
  return { from, to: forward(text, from, length) };
}

/** Line and column of an offset, as the service counts them. */
export function placeOf(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset);
  const start = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: [...before.slice(start)].length + 1 };
}

export type Segment<T> = { readonly text: string; readonly marks: readonly T[] };

/** Cuts a text where marks begin and end, each piece with the marks that cover it, in the order given. */
export function segments<T extends Place>(text: string, marks: readonly T[]): Segment<T>[] {
  const ranges = marks.map((mark) => ({ mark, ...rangeOf(text, mark) }));
  const cuts = [...new Set([0, text.length, ...ranges.flatMap(({ from, to }) => [from, to])])].sort(
    (one, other) => one - other,
  );
  return cuts.slice(1).map((to, index) => {
    const from = cuts[index] ?? 0;
    return {
      text: text.slice(from, to),
      marks: ranges.filter((range) => range.from <= from && to <= range.to).map(({ mark }) => mark),
    };
  });
}
