import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";

/** Icon of a button that shows or hides details. */
export function Chevron({ opened, size = 14 }: { opened: boolean; size?: number }) {
  return opened ? <IconChevronDown size={size} aria-hidden /> : <IconChevronRight size={size} aria-hidden />;
}
