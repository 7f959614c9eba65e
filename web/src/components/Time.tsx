import { Text } from "@mantine/core";
import { useTimeZone } from "../app/useTimeZone";
import { formatInstant, type Instant, instantOf, parseInstant } from "../lib/time";

/** A time in the chosen time zone. The tooltip shows the other zone. */
export function Time({ at, digits = 3 }: { at: string | Instant | Date; digits?: number }) {
  const [zone] = useTimeZone();
  const instant = at instanceof Date ? instantOf(at) : typeof at === "string" ? parseInstant(at) : at;
  if (instant === null) {
    return <Text span>{String(at)}</Text>;
  }
  const otherZone = zone === "utc" ? "local" : "utc";
  return (
    <Text
      span
      inherit
      component="time"
      title={`${formatInstant(instant, otherZone, 9)} ${otherZone === "utc" ? "UTC" : "local time"}`}
      style={{ fontVariantNumeric: "tabular-nums", whiteSpace: "nowrap" }}
    >
      {formatInstant(instant, zone, digits)}
      {zone === "utc" ? " UTC" : ""}
    </Text>
  );
}
