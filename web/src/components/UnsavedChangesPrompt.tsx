import { Button, Group, Modal, Text } from "@mantine/core";
import { useBlocker } from "@tanstack/react-router";

/** Asks for confirmation before the user leaves a page with unsaved changes. */
export function UnsavedChangesPrompt({ when }: { when: boolean }) {
  const { proceed, reset, status } = useBlocker({
    // The end of a session always leads to the sign-in page.
    shouldBlockFn: ({ current, next }) =>
      when && next.pathname !== current.pathname && !next.pathname.endsWith("/login"),
    enableBeforeUnload: when,
    withResolver: true,
  });
  return (
    <Modal opened={status === "blocked"} onClose={() => reset?.()} title="Leave without saving?" centered>
      <Text size="sm">Your changes on this page are not saved yet.</Text>
      <Group justify="flex-end" mt="md">
        <Button variant="default" onClick={() => reset?.()} data-autofocus>
          Stay
        </Button>
        <Button color="red" onClick={() => proceed?.()}>
          Leave
        </Button>
      </Group>
    </Modal>
  );
}
