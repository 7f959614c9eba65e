import { Badge as MantineBadge } from "@mantine/core";
import type { ReactNode } from "react";

/** A word with a coloured dot: the colour says it again, never alone. */
export function StateBadge({
  color,
  children,
  title,
}: {
  color: string;
  children: ReactNode;
  title?: string;
}) {
  return (
    <MantineBadge
      variant="dot"
      color={color}
      radius="sm"
      tt="none"
      fw={500}
      {...(title === undefined ? {} : { title })}
    >
      {children}
    </MantineBadge>
  );
}
