import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import classes from "../../components/stickyBar.module.css";
import { countOf } from "../../lib/numbers";
import type { DraftPolicy } from "./draft";
import { ImpactPreview } from "./ImpactPreview";
import { RoleDiff } from "./RoleDiff";

/** Shows the changes of a save and the number of affected users, before saving. */
export function Review({
  name,
  before,
  after,
  members,
  busy,
  onSave,
  onClose,
}: {
  name: string;
  before: readonly DraftPolicy[];
  after: readonly DraftPolicy[];
  members: readonly string[];
  busy: boolean;
  onSave: () => void;
  onClose: () => void;
}) {
  return (
    <Modal opened onClose={onClose} title={`Review the changes of ${name}`} size="xl">
      <Stack gap="md">
        <Text size="sm">
          {members.length === 0
            ? "No user has this role yet, so that no access changes."
            : `This changes which traces ${countOf(members.length, "member sees", "members see")}, from their next request on.`}
        </Text>
        <RoleDiff before={before} after={after} />
        <ImpactPreview role={name} draft={after} />
        <Group justify="flex-end" className={classes.bar ?? ""}>
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button loading={busy} onClick={onSave} data-autofocus>
            Save
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
