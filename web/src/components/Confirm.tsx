import { Button, Group, Modal, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import { ErrorNotice } from "./ErrorNotice";

/** A button for what cannot be taken back: says what will happen, and asks once more. */
export function Confirm({
  label,
  title,
  children,
  action,
  color = "red",
}: {
  label: string;
  title: string;
  children: ReactNode;
  action: () => Promise<unknown>;
  color?: string;
}) {
  const [opened, { open, close }] = useDisclosure();
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: null });
  const act = async () => {
    setState({ busy: true, error: null });
    try {
      await action();
      setState({ busy: false, error: null });
      close();
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  return (
    <>
      <Button size="xs" variant="light" color={color} onClick={open}>
        {label}
      </Button>
      <Modal opened={opened} onClose={close} title={title} centered>
        <Text component="div" size="sm" mb="md">
          {children}
        </Text>
        {state.error !== null && <ErrorNotice error={state.error} />}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button color={color} loading={state.busy} onClick={act} data-autofocus>
            {label}
          </Button>
        </Group>
      </Modal>
    </>
  );
}
