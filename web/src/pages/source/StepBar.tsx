import { Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import classes from "./source.module.css";

/** Bar at the end of a step: a hint about missing input, and the buttons to other steps. */
export function StepBar({ hint, children }: { hint?: string | null; children: ReactNode }) {
  return (
    <Group className={classes.bar} justify="space-between" gap="sm">
      <Text size="sm" c="dimmed">
        {hint}
      </Text>
      <Group gap="sm" ml="auto">
        {children}
      </Group>
    </Group>
  );
}
