import { Text } from "@mantine/core";
import { useZone } from "../app/settings";
import { ago, formatInstant, instantOf } from "../lib/time";

/** Relative time, for times that need not be exact. The tooltip shows the exact time. */
export function Ago({ at, never = "never" }: { at: string | null; never?: string }) {
  const [zone] = useZone();
  const then = at === null ? null : new Date(at);
  if (then === null || Number.isNaN(then.getTime())) {
    return (
      <Text span inherit c="var(--tw-quiet)">
        {never}
      </Text>
    );
  }
  return (
    <Text
      span
      inherit
      component="time"
      dateTime={then.toISOString()}
      title={`${formatInstant(instantOf(then), zone, 0)}${zone === "utc" ? " UTC" : ""}`}
      style={{ whiteSpace: "nowrap" }}
    >
      {ago(then, new Date())}
    </Text>
  );
}
