import { Button } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { sanitize } from "../lib/sanitize";
import { useCopy } from "../lib/useCopy";
import { IconButton } from "./IconButton";

/** Copies a text and confirms it. With a label, it is a button, otherwise an icon. */
export function CopyButton({
  value,
  name,
  label,
}: {
  /** A function if the text is only known when it is copied. */
  value: string | (() => string);
  /** May contain text from spans. */
  name: string;
  label?: string;
}) {
  const { copied, copy } = useCopy();
  const handleClick = () => void copy(typeof value === "string" ? value : value());
  const icon = copied ? <IconCheck size={16} aria-hidden /> : <IconCopy size={16} aria-hidden />;
  if (label !== undefined) {
    return (
      <Button size="xs" variant="default" leftSection={icon} onClick={handleClick}>
        {copied ? "Copied" : label}
      </Button>
    );
  }
  return (
    <IconButton tooltip={copied ? "Copied" : `Copy ${sanitize(name)}`} size="sm" onClick={handleClick}>
      {icon}
    </IconButton>
  );
}
