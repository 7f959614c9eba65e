import { useLocalStorage } from "@mantine/hooks";
import type { Zone } from "../lib/time";

/** Whether times are shown in the reader's zone or in UTC. Kept in this browser. */
export function useZone(): [Zone, (zone: Zone) => void] {
  const [zone, setZone] = useLocalStorage<Zone>({
    key: "tracewarden-zone",
    defaultValue: "local",
    getInitialValueInEffect: false,
  });
  return [zone, setZone];
}
