const UNITS: [string, number][] = [
  ["d", 86_400e9],
  ["h", 3_600e9],
  ["m", 60e9],
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
];

/** Formats a duration with three significant digits: `1.23 s`, `850 µs`, `3m 20s`. */
export function formatDuration(nanos: number): string {
  if (!Number.isFinite(nanos)) {
    return "–";
  }
  if (nanos < 0) {
    return `−${formatDuration(-nanos)}`;
  }
  if (nanos >= 60e9) {
    const parts: string[] = [];
    let rest = Math.round(nanos / 1e9) * 1e9;
    for (const [unit, length] of UNITS.slice(0, 4)) {
      const count = Math.floor(rest / length);
      rest -= count * length;
      if (count > 0 && parts.length < 2) {
        parts.push(`${count}${unit}`);
      }
    }
    return parts.join(" ");
  }
  const [unit, length] = UNITS.find(([, length]) => nanos >= length) ?? ["ns", 1];
  const value = nanos / length;
  return `${value >= 100 ? value.toFixed(0) : Number(value.toPrecision(3))} ${unit}`;
}

/** Parses a text such as `1.5s`, `200 ms` or `2m` to whole nanoseconds, or returns `null`. The default unit is milliseconds. */
export function parseDuration(text: string): number | null {
  const [, number, unit = "ms"] = /^\s*(\d+(?:\.\d+)?)\s*(d|h|m|s|ms|us|µs|ns)?\s*$/.exec(text) ?? [];
  const lengths = Object.fromEntries([...UNITS, ["us", 1e3] as const, ["ns", 1] as const]);
  const length = lengths[unit];
  return number === undefined || length === undefined ? null : Math.round(Number(number) * length);
}
