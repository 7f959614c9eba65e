import { Button } from "@mantine/core";
import { IconLockOpen } from "@tabler/icons-react";
import type { Api } from "../../../api/client";
import { SanitizedText } from "../../../components/SanitizedText";
import { grantingPolicy } from "./explanation";
import classes from "./why.module.css";

/** Id of the panel that the badge opens. */
export const WHY_PANEL_ID = "why-panel";

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
  const grantedBy = explanation === undefined ? null : grantingPolicy(explanation);
  return (
    <Button
      size="compact-sm"
      variant="light"
      className={classes.badge}
      leftSection={<IconLockOpen size={14} aria-hidden />}
      aria-expanded={opened}
      aria-controls={opened ? WHY_PANEL_ID : undefined}
      data-why
      onClick={onToggle}
    >
      Why do I see this?
      {grantedBy !== null && (
        <span className={classes.grantedBy}>
          <SanitizedText text={grantedBy.role} maxLength={60} /> /{" "}
          <SanitizedText text={grantedBy.title} maxLength={60} />
          {grantedBy.more > 0 && ` and ${grantedBy.more.toLocaleString("en")} more`}
        </span>
      )}
    </Button>
  );
}
