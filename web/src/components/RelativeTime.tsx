import { Text } from "@mantine/core";
import { useTimeZone } from "../app/useTimeZone";
import { formatInstant, formatRelativeTime, instantOf } from "../lib/time";
import { Secondary } from "./Secondary";

/** Relative time, for times that need not be exact. The tooltip shows the exact time. */
export function RelativeTime({ at }: { at: string | null }) {
  const [zone] = useTimeZone();
  const date = at === null ? null : new Date(at);
  if (date === null || Number.isNaN(date.getTime())) {
    return <Secondary>never</Secondary>;
  }
  return (
    <Text
      span
      inherit
      component="time"
      dateTime={date.toISOString()}
      title={`${formatInstant(instantOf(date), zone, 0)}${zone === "utc" ? " UTC" : ""}`}
      style={{ whiteSpace: "nowrap" }}
    >
      {formatRelativeTime(date, new Date())}
    </Text>
  );
}
