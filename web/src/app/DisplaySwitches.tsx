import { ActionIcon, Button, Tooltip, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { IconMoon, IconSun } from "@tabler/icons-react";
import { localTimeLabel } from "../lib/time";
import { useZone } from "./settings";

/** Switches for the colour scheme and the time zone. */
export function DisplaySwitches() {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const [zone, setZone] = useZone();
  const other = scheme === "dark" ? "light" : "dark";
  const local = localTimeLabel(new Date());
  return (
    <>
      <Tooltip
        label={zone === "utc" ? "Times are in UTC; switch to local time" : "Times are local; switch to UTC"}
      >
        <Button
          size="compact-xs"
          variant="subtle"
          color="gray"
          c="var(--tw-quiet)"
          onClick={() => setZone(zone === "utc" ? "local" : "utc")}
          aria-label={zone === "utc" ? "UTC; switch to local time" : `${local}; switch to UTC`}
        >
          {zone === "utc" ? "UTC" : local}
        </Button>
      </Tooltip>
      <Tooltip label={`Switch to ${other}`}>
        <ActionIcon
          variant="subtle"
          color="gray"
          onClick={() => setColorScheme(other)}
          aria-label={`Switch to ${other}`}
        >
          {scheme === "dark" ? <IconSun size={18} aria-hidden /> : <IconMoon size={18} aria-hidden />}
        </ActionIcon>
      </Tooltip>
    </>
  );
}
