import { Group, Title } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useId } from "react";
import { useMe } from "../../../app/useMe";
import { IconButton } from "../../../components/IconButton";
import { AccessChoice, type AccessChoiceProps } from "./AccessChoice";
import { AccessExplanation } from "./AccessExplanation";
import { WHY_PANEL_ID } from "./WhyBadge";
import classes from "./why.module.css";

/** Explains why the trace is visible to the user and, for administrators, to others. */
export function WhyPanel({
  onClose,
  ...choice
}: Omit<AccessChoiceProps, "canReadTrace"> & { onClose: () => void }) {
  const me = useMe();
  const title = useId();
  return (
    <section id={WHY_PANEL_ID} aria-labelledby={title} className={classes.panel}>
      <Group justify="space-between" wrap="nowrap" align="flex-start" gap="xs" mb="xs">
        <Title order={2} size="h3" id={title}>
          {me.is_admin && choice.why !== "own" ? "Who sees this, and why" : "Why do I see this?"}
        </Title>
        <IconButton tooltip="Close (Esc)" label="Close the explanation" onClick={onClose}>
          <IconX size={18} aria-hidden />
        </IconButton>
      </Group>
      {me.is_admin ? (
        <AccessChoice {...choice} canReadTrace />
      ) : (
        <AccessExplanation id={choice.id} user={null} onShowSpan={choice.onShowSpan} />
      )}
    </section>
  );
}
