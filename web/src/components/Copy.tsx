import { ActionIcon, Button, CopyButton, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

/** Copies a text; says that it did. With a label a button, without one an icon. */
export function Copy({
  value,
  what,
  label,
}: {
  value: string | (() => string);
  what: string;
  label?: string;
}) {
  return (
    <CopyButton value={typeof value === "string" ? value : ""} timeout={1_500}>
      {({ copied, copy }) => {
        const take = typeof value === "string" ? copy : () => void navigator.clipboard.writeText(value());
        const icon = copied ? <IconCheck size={16} aria-hidden /> : <IconCopy size={16} aria-hidden />;
        return label === undefined ? (
          <Tooltip label={copied ? "Copied" : `Copy ${what}`}>
            <ActionIcon
              size="sm"
              variant="subtle"
              color="gray"
              onClick={take}
              aria-label={copied ? "Copied" : `Copy ${what}`}
            >
              {icon}
            </ActionIcon>
          </Tooltip>
        ) : (
          <Button size="xs" variant="default" leftSection={icon} onClick={take}>
            {copied ? "Copied" : label}
          </Button>
        );
      }}
    </CopyButton>
  );
}
