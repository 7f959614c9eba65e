const COUNT_UNITS: [string, number][] = [
  ["T", 1e12],
  ["B", 1e9],
  ["M", 1e6],
  ["k", 1e3],
];
const BYTE_UNITS: [string, number][] = [
  ["PB", 1e15],
  ["TB", 1e12],
  ["GB", 1e9],
  ["MB", 1e6],
  ["kB", 1e3],
];

function formatScaled(value: number, units: [string, number][], from: number): string | null {
  for (const [index, [unit, size]] of units.entries()) {
    if (value < Math.max(size, from)) {
      continue;
    }
    const digits = Number((value / size).toPrecision(value / size >= 100 ? 3 : 2));
    // 999,999 rounds up to the next unit.
    const larger = units[index - 1];
    return digits >= 1_000 && larger !== undefined ? `1 ${larger[0]}` : `${digits} ${unit}`;
  }
  return null;
}

/** Formats a number of rows: `850`, `9,120`, `1.2 M`. */
export function formatCount(count: number): string {
  return formatScaled(count, COUNT_UNITS, 10_000) ?? Math.round(count).toLocaleString("en");
}

/** Formats a size: `512 B`, `3.4 GB`. */
export function formatBytes(bytes: number): string {
  return formatScaled(bytes, BYTE_UNITS, 0) ?? `${Math.round(bytes)} B`;
}

/** Formats a frequency: `64 %`, `0.3 %`. `0 %` and `100 %` are exact. */
export function formatShare(part: number, whole: number): string {
  if (whole <= 0) {
    return "–";
  }
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 0.1) {
    return "< 0.1 %";
  }
  const rounded = percent < 10 ? Number(percent.toFixed(1)) : Math.floor(percent);
  return `${rounded} %`;
}

/** Formats a count with its noun: `1 field`, `2 fields`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Formats numbers with consecutive ones combined: `1 to 3, 7`. */
export function formatRanges(numbers: number[]): string {
  const runs: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last !== undefined && number === last[1] + 1) {
      last[1] = number;
    } else {
      runs.push([number, number]);
    }
  }
  return runs
    .map(([from, to]) => (from === to ? `${from}` : `${from}${to === from + 1 ? ", " : " to "}${to}`))
    .join(", ");
}

/** Formats a factor of reduction: `12×`, `1.4×`, `1,300×`. */
export function formatGain(gain: number): string {
  // For a small table, the estimate may be that more is read.
  if (gain < 1) {
    return "< 1×";
  }
  return `${gain >= 10 ? Math.round(gain).toLocaleString("en") : Number(gain.toFixed(1))}×`;
}
