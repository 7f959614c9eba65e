import { Button, Tooltip, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { IconMoon, IconSun } from "@tabler/icons-react";
import { IconButton } from "../components/IconButton";
import { localTimeLabel } from "../lib/time";
import { useTimeZone } from "./useTimeZone";

/** Switches for the colour scheme and the time zone. */
export function DisplaySwitches() {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const [zone, setZone] = useTimeZone();
  const otherScheme = scheme === "dark" ? "light" : "dark";
  const localLabel = localTimeLabel(new Date());
  return (
    <>
      <Tooltip
        label={zone === "utc" ? "Times are in UTC; switch to local time" : "Times are local; switch to UTC"}
      >
        <Button
          size="compact-xs"
          variant="subtle"
          color="gray"
          c="dimmed"
          onClick={() => setZone(zone === "utc" ? "local" : "utc")}
          aria-label={
            zone === "utc" ? "UTC; switch to local time" : `Local time, ${localLabel}; switch to UTC`
          }
        >
          {zone === "utc" ? "UTC" : localLabel}
        </Button>
      </Tooltip>
      <IconButton tooltip={`Switch to ${otherScheme}`} onClick={() => setColorScheme(otherScheme)}>
        {scheme === "dark" ? <IconSun size={18} aria-hidden /> : <IconMoon size={18} aria-hidden />}
      </IconButton>
    </>
  );
}
