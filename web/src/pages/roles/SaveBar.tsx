import { Button, Group, Text } from "@mantine/core";
import { useState } from "react";
import classes from "../../components/stickyBar.module.css";

/** Bar that stays visible while there are unsaved changes. */
export function SaveBar({
  validationError,
  onReview,
  onDiscard,
}: {
  validationError: string | null;
  onReview: () => Promise<void>;
  onDiscard?: () => void;
}) {
  const [busy, setBusy] = useState(false);
  return (
    <Group className={classes.bar} justify="space-between" gap="xs">
      <Text
        size="sm"
        role="status"
        c={validationError === null ? "var(--tw-text-secondary)" : "var(--tw-error)"}
      >
        {validationError ?? "Not saved yet"}
      </Text>
      <Group gap="xs">
        {onDiscard !== undefined && (
          <Button variant="default" onClick={onDiscard}>
            Discard changes
          </Button>
        )}
        <Button
          loading={busy}
          onClick={() => {
            setBusy(true);
            void onReview().finally(() => setBusy(false));
          }}
        >
          Review and save
        </Button>
      </Group>
    </Group>
  );
}
