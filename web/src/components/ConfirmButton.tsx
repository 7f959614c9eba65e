import { Button, Group, Modal, Text, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type KeyboardEvent, type ReactNode, useState } from "react";
import classes from "./dialog.module.css";
import { ErrorNotice } from "./ErrorNotice";

/** Button for an irreversible action: describes the consequences and asks for confirmation. */
export function Confirm({
  label,
  title,
  children,
  action,
  color = "red",
  quiet = false,
  of,
  typed,
  wide = false,
}: {
  label: string;
  title: string;
  children: ReactNode;
  action: () => Promise<unknown>;
  color?: string;
  /** For a button in every row of a table. */
  quiet?: boolean;
  /** Object of the action, if the label alone does not name it. */
  of?: string;
  /** Name that must be typed to enable the button, for the most destructive actions. */
  typed?: string;
  /** For a dialog with more than a few sentences. */
  wide?: boolean;
}) {
  const [opened, { open, close }] = useDisclosure();
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: null });
  const [name, setName] = useState("");
  const ready = typed === undefined || name === typed;
  const act = async () => {
    if (state.busy) {
      return;
    }
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
      <Button
        size="xs"
        variant={quiet ? "subtle" : "light"}
        color={color}
        aria-label={of === undefined ? undefined : `${label} ${of}`}
        onClick={() => {
          // If the dialog was closed during the action, show the action's state again.
          if (!state.busy) {
            setName("");
            setState({ busy: false, error: null });
          }
          open();
        }}
      >
        {label}
      </Button>
      <Modal opened={opened} onClose={close} title={title} centered size={wide ? "xl" : "md"}>
        <Text component="div" size="sm" mb="md">
          {children}
        </Text>
        {typed !== undefined && (
          <TextInput
            mb="md"
            label={`Type ${typed} to confirm`}
            autoComplete="off"
            spellCheck={false}
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && !event.repeat && ready) {
                void act();
              }
            }}
          />
        )}
        {state.error !== null && <ErrorNotice error={state.error} />}
        <Group
          justify="flex-end"
          mt="md"
          className={wide ? (classes.buttons ?? "") : ""}
          onKeyDownCapture={withoutRepeat}
        >
          <Button variant="default" onClick={close} data-autofocus={typed === undefined || undefined}>
            Cancel
          </Button>
          {/* The theme's red has too little contrast with white letters. */}
          <Button
            color={color === "red" ? "red.9" : color}
            loading={state.busy}
            onClick={act}
            disabled={!ready}
          >
            {label}
          </Button>
        </Group>
      </Modal>
    </>
  );
}

/** While the key that opened the dialog is held down, its repeats must not confirm it. */
function withoutRepeat(event: KeyboardEvent): void {
  if (event.repeat && event.key === "Enter") {
    event.preventDefault();
  }
}
