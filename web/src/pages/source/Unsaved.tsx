import { Button, Group, Modal, Text } from "@mantine/core";
import { useBlocker } from "@tanstack/react-router";

/** Asks before the page is left with something that is not saved. Going about within `within` leaves nothing. */
export function Unsaved({ when, within }: { when: boolean; within: string }) {
  const blocker = useBlocker({
    shouldBlockFn: ({ next }) => when && next.pathname !== within,
    enableBeforeUnload: () => when,
    withResolver: true,
  });
  return (
    <Modal
      opened={blocker.status === "blocked"}
      onClose={() => blocker.reset?.()}
      title="Leave without saving?"
      centered
    >
      <Text size="sm" mb="md">
        There are changes on this page that are not saved. They are lost when you leave it.
      </Text>
      <Group justify="flex-end">
        <Button variant="default" onClick={() => blocker.reset?.()} data-autofocus>
          Stay
        </Button>
        <Button color="red" onClick={() => blocker.proceed?.()}>
          Leave
        </Button>
      </Group>
    </Modal>
  );
}
