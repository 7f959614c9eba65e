import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useCopy } from "../lib/useCopy";
import { visible } from "../lib/visible";

/** Copies a text and confirms it. With a label, it is a button, otherwise an icon. */
export function Copy({
  value,
  what,
  label,
}: {
  /** A function if the text is only known when it is copied. */
  value: string | (() => string);
  /** May contain text from spans. */
  what: string;
  label?: string;
}) {
  const { copied, copy } = useCopy();
  const take = () => void copy(typeof value === "string" ? value : value());
  const icon = copied ? <IconCheck size={16} aria-hidden /> : <IconCopy size={16} aria-hidden />;
  if (label !== undefined) {
    return (
      <Button size="xs" variant="default" leftSection={icon} onClick={take}>
        {copied ? "Copied" : label}
      </Button>
    );
  }
  const name = copied ? "Copied" : `Copy ${visible(what)}`;
  return (
    <Tooltip label={name}>
      <ActionIcon size="sm" variant="subtle" color="gray" onClick={take} aria-label={name}>
        {icon}
      </ActionIcon>
    </Tooltip>
  );
}
