import { Text } from "@mantine/core";
import type { ReactNode } from "react";

/** Less important text: a paragraph of a size, otherwise a part of the text around it. */
export function Secondary({ size, children }: { size?: "xs" | "sm"; children: ReactNode }) {
  return (
    <Text {...(size === undefined ? { span: true, inherit: true } : { size })} c="dimmed">
      {children}
    </Text>
  );
}
