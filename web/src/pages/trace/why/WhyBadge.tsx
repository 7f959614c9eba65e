import { Button } from "@mantine/core";
import { IconLockOpen } from "@tabler/icons-react";
import type { Api } from "../../../api/client";
import { Visible } from "../../../components/Visible";
import { openedBy } from "./explanation";
import classes from "./why.module.css";

/** Id of the panel that the badge opens. */
export const PANEL = "why-panel";

/** Role and policy that grant access to the trace; opens the panel with the full explanation. While they are unknown, or if they
 * are unavailable, the badge shows only the question. */
export function WhyBadge({
  explanation,
  opened,
  onToggle,
}: {
  explanation: Api["AccessExplanation"] | undefined;
  opened: boolean;
  onToggle: () => void;
}) {
  const by = explanation === undefined ? null : openedBy(explanation);
  return (
    <Button
      size="compact-sm"
      variant="light"
      className={classes.badge}
      leftSection={<IconLockOpen size={14} aria-hidden />}
      aria-expanded={opened}
      aria-controls={opened ? PANEL : undefined}
      data-why
      onClick={onToggle}
    >
      Why do I see this?
      {by !== null && (
        <span className={classes.by}>
          <Visible text={by.role} most={60} /> / <Visible text={by.title} most={60} />
          {by.more > 0 && ` and ${by.more.toLocaleString("en")} more`}
        </span>
      )}
    </Button>
  );
}
