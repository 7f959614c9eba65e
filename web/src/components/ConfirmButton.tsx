import { Button, Group, Modal, Text, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type KeyboardEvent, type ReactNode, useState } from "react";
import { ErrorNotice } from "./ErrorNotice";
import classes from "./stickyBar.module.css";

/** Button for an irreversible action: describes the consequences and asks for confirmation. */
export function ConfirmButton({
  label,
  title,
  children,
  action,
  color = "red",
  subtle = false,
  object,
  confirmationText,
  wide = false,
}: {
  label: string;
  title: string;
  children: ReactNode;
  action: () => Promise<unknown>;
  color?: string;
  /** For a button in every row of a table. */
  subtle?: boolean;
  /** Object of the action, if the label alone does not name it. */
  object?: string;
  /** Name that must be typed to enable the button, for the most destructive actions. */
  confirmationText?: string;
  /** For a dialog with more than a few sentences. */
  wide?: boolean;
}) {
  const [opened, { open, close }] = useDisclosure();
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: null });
  const [typedText, setTypedText] = useState("");
  const ready = confirmationText === undefined || typedText === confirmationText;
  const confirm = async () => {
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
        variant={subtle ? "subtle" : "light"}
        color={color}
        aria-label={object === undefined ? undefined : `${label} ${object}`}
        onClick={() => {
          // If the dialog was closed during the action, show the action's state again.
          if (!state.busy) {
            setTypedText("");
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
        {confirmationText !== undefined && (
          <TextInput
            mb="md"
            label={`Type ${confirmationText} to confirm`}
            autoComplete="off"
            spellCheck={false}
            data-autofocus
            value={typedText}
            onChange={(event) => setTypedText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && !event.repeat && ready) {
                void confirm();
              }
            }}
          />
        )}
        {state.error !== null && <ErrorNotice error={state.error} />}
        <Group
          justify="flex-end"
          mt="md"
          className={wide ? (classes.bar ?? "") : ""}
          onKeyDownCapture={ignoreKeyRepeat}
        >
          <Button
            variant="default"
            onClick={close}
            data-autofocus={confirmationText === undefined || undefined}
          >
            Cancel
          </Button>
          {/* The theme's red has too little contrast with white letters. */}
          <Button
            color={color === "red" ? "red.9" : color}
            loading={state.busy}
            onClick={confirm}
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
function ignoreKeyRepeat(event: KeyboardEvent): void {
  if (event.repeat && event.key === "Enter") {
    event.preventDefault();
  }
}
