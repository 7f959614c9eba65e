import { Button, Group } from "@mantine/core";

/** Buttons of a form in a dialog. */
export function SubmitButtons({
  label,
  busy = false,
  disabled = false,
  onCancel,
}: {
  label: string;
  busy?: boolean;
  disabled?: boolean;
  onCancel: () => void;
}) {
  return (
    <Group justify="flex-end">
      <Button variant="default" onClick={onCancel}>
        Cancel
      </Button>
      <Button type="submit" loading={busy} disabled={disabled}>
        {label}
      </Button>
    </Group>
  );
}
