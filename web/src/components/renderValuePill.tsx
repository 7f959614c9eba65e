import { Pill } from "@mantine/core";
import { sanitize } from "../lib/sanitize";
import { SanitizedText } from "./SanitizedText";

/** A value of a list input, which may be text from spans. */
export function renderValuePill({
  value = "",
  onRemove,
}: {
  value?: string | undefined;
  onRemove?: (() => void) | undefined;
}) {
  return (
    <Pill
      withRemoveButton
      {...(onRemove === undefined ? {} : { onRemove })}
      removeButtonProps={{ "aria-label": `Remove ${sanitize(value)}` }}
    >
      <SanitizedText text={value} maxLength={80} />
    </Pill>
  );
}
