import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { Differences } from "./Differences";
import type { DraftPolicy } from "./draft";

/** Another user has stored a version during editing. Both versions are kept until the user selects one. */
export function Conflict({
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
    <Alert
      role="alert"
      color="yellow"
      variant="light"
      mb="md"
      icon={<IconAlertTriangle aria-hidden />}
      title="Somebody else has changed this role meanwhile"
    >
      <Stack gap="sm">
        <Text size="sm">This is what they changed. What you wrote is still below, and is not saved.</Text>
        <Differences before={base} after={theirs} />
        <Group gap="xs">
          <Button variant="default" onClick={onKeepMine}>
            Go on with my text
          </Button>
          <Button variant="default" onClick={onTakeTheirs}>
            Take theirs, discard mine
          </Button>
        </Group>
        <Text size="xs">
          Going on with yours replaces their version when you save; the review shows what that takes away.
        </Text>
      </Stack>
    </Alert>
  );
}

/** The role was deleted during editing. The draft is kept. */
export function Deleted({ onKeepMine }: { onKeepMine: () => void }) {
  return (
    <Alert
      role="alert"
      color="yellow"
      variant="light"
      mb="md"
      icon={<IconAlertTriangle aria-hidden />}
      title="Somebody has deleted this role meanwhile"
    >
      <Text size="sm" mb="xs">
        What you wrote is still below. Saving makes the role anew; it then has no members.
      </Text>
      <Button variant="default" onClick={onKeepMine}>
        Make it anew with my text
      </Button>
    </Alert>
  );
}
