import { Button, Group, Modal, Text, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type KeyboardEvent, type ReactNode, useState } from "react";
import classes from "./dialog.module.css";
import { ErrorNotice } from "./ErrorNotice";

/** A button for what cannot be taken back: says what will happen, and asks once more. */
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
  /** What it is done to, where the label alone does not say. */
  of?: string;
  /** A name to be typed before the button works, for what destroys most. */
  typed?: string;
  /** For a question with more than a few sentences. */
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
          // Closed while it was being done, it shows that again.
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
          {/* The theme's red is too light for white letters. */}
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

/** The key that opened the question, when it is held, must not answer it. */
function withoutRepeat(event: KeyboardEvent): void {
  if (event.repeat && event.key === "Enter") {
    event.preventDefault();
  }
}
