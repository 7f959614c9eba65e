/** Position of a diagnostic in an expression: counted from 1, in code points, with line feeds as line ends. */
export type SourcePosition = { readonly line: number; readonly column: number; readonly length: number };

/** Offsets in a JavaScript string, in UTF-16 units; `to` is exclusive. */
export type Range = { readonly from: number; readonly to: number };

/** Returns the offset that is `points` code points later, at most the end of the text. */
function advance(text: string, from: number, points: number): number {
  let offset = from;
  for (let remaining = points; remaining > 0 && offset < text.length; remaining -= 1) {
    offset += (text.codePointAt(offset) ?? 0) > 0xffff ? 2 : 1;
  }
  return offset;
}

/** Returns the part of a text that a position covers. Positions outside of the text are clamped.
 *
 * A carriage return is an ordinary character here, so that texts from all systems are counted alike. */
export function rangeOf(text: string, { line, column, length }: SourcePosition): Range {
  let start = 0;
  for (let remaining = line - 1; remaining > 0; remaining -= 1) {
    const end = text.indexOf("\n", start);
    if (end === -1) {
      break;
    }
    start = end + 1;
  }
  const from = advance(text, start, column - 1);
  return { from, to: advance(text, from, length) };
}

/** Returns line and column of an offset, as the service counts them. */
export function positionAt(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset);
  const start = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: [...before.slice(start)].length + 1 };
}

export type Segment<T> = { readonly text: string; readonly marks: readonly T[] };

/** Splits a text at the ends of marks. Each piece has the marks that cover it, in the given order. */
export function segments<T extends SourcePosition>(text: string, marks: readonly T[]): Segment<T>[] {
  const ranges = marks.map((mark) => ({ mark, ...rangeOf(text, mark) }));
  const cuts = [...new Set([0, text.length, ...ranges.flatMap(({ from, to }) => [from, to])])].sort(
    (a, b) => a - b,
  );
  return cuts.slice(1).map((to, index) => {
    const from = cuts[index] ?? 0;
    return {
      text: text.slice(from, to),
      marks: ranges.filter((range) => range.from <= from && to <= range.to).map(({ mark }) => mark),
    };
  });
}
