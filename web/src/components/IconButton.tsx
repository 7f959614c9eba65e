import { ActionIcon, type ActionIconProps, type ElementProps, Tooltip } from "@mantine/core";

/** A button with an icon and a tooltip, which is its accessible name unless `label` is more specific. */
export function IconButton({
  tooltip,
  label = tooltip,
  ...props
}: { tooltip: string; label?: string } & ActionIconProps & ElementProps<"button", keyof ActionIconProps>) {
  return (
    <Tooltip label={tooltip}>
      <ActionIcon variant="subtle" color="gray" aria-label={label} {...props} />
    </Tooltip>
  );
}
