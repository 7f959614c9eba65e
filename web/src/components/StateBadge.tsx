import { Badge as MantineBadge } from "@mantine/core";
import type { ReactNode } from "react";

/** A word with a coloured dot: the colour says it again, never alone. */
export function StateBadge({
  color,
  children,
  title,
  strong = false,
}: {
  color: string;
  children: ReactNode;
  title?: string;
  /** For what has to be seen among many. */
  strong?: boolean;
}) {
  return (
    <MantineBadge
      variant="dot"
      color={color}
      radius="sm"
      tt="none"
      fw={500}
      // The word is never cut.
      miw="max-content"
      {...(strong ? { c: "var(--tw-error)" } : {})}
      {...(title === undefined ? {} : { title })}
    >
      {children}
    </MantineBadge>
  );
}
