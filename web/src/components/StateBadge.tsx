import { Badge } from "@mantine/core";
import type { ReactNode } from "react";

/** A word with a coloured dot. The colour only repeats the meaning of the word. */
export function StateBadge({
  color,
  children,
  title,
  strong = false,
}: {
  color: string;
  children: ReactNode;
  title?: string;
  /** For a state that must stand out in a list. */
  strong?: boolean;
}) {
  return (
    <Badge
      variant="dot"
      color={color}
      radius="sm"
      fw={500}
      // The word is never truncated.
      miw="max-content"
      {...(strong ? { c: "var(--tw-error)" } : {})}
      {...(title === undefined ? {} : { title })}
    >
      {children}
    </Badge>
  );
}
