import { Group } from "@mantine/core";
import type { ReactNode } from "react";
import { Secondary } from "../../components/Secondary";
import classes from "../../components/stickyBar.module.css";

/** Bar at the end of a step: a hint about missing input, and the buttons to other steps. */
export function StepBar({ hint, children }: { hint?: string | null; children: ReactNode }) {
  return (
    <Group className={classes.bar} justify="space-between" gap="sm">
      <Secondary size="sm">{hint}</Secondary>
      <Group gap="sm" ml="auto">
        {children}
      </Group>
    </Group>
  );
}
