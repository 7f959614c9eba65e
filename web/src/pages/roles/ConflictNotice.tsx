import { Button, Group, Stack, Text } from "@mantine/core";
import { Notice } from "../../components/Notice";
import type { DraftPolicy } from "./draft";
import { RoleDiff } from "./RoleDiff";

/** Another user has stored a version during editing. Both versions are kept until the user selects one. */
export function ConflictNotice({
  base,
  theirs,
  onKeepMine,
  onTakeTheirs,
}: {
  base: readonly DraftPolicy[];
  theirs: readonly DraftPolicy[];
  onKeepMine: () => void;
  onTakeTheirs: () => void;
}) {
  return (
    <Notice kind="warning" mb="md" title="Another user changed this role in the meantime">
      <Stack gap="sm">
        <Text size="sm">These are their changes. Your version is still below, and is not saved.</Text>
        <RoleDiff before={base} after={theirs} />
        <Group gap="xs">
          <Button variant="default" onClick={onKeepMine}>
            Keep my version
          </Button>
          <Button variant="default" onClick={onTakeTheirs}>
            Use theirs
          </Button>
        </Group>
        <Text size="xs">
          If you keep your version, saving it replaces theirs; the review shows the differences.
        </Text>
      </Stack>
    </Notice>
  );
}

/** The role was deleted during editing. The draft is kept. */
export function RoleDeletedNotice({ onKeepMine }: { onKeepMine: () => void }) {
  return (
    <Notice kind="warning" mb="md" title="Another user deleted this role in the meantime">
      <Text size="sm" mb="xs">
        Your version is still below. Saving creates the role again, without members.
      </Text>
      <Button variant="default" onClick={onKeepMine}>
        Create it again with my version
      </Button>
    </Notice>
  );
}
