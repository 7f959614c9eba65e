import { Group, Title } from "@mantine/core";
import { type ReactNode, useEffect } from "react";

/** Heading of a page, which is also the document title, with actions to the right. */
export function PageTitle({ title, children }: { title: string; children?: ReactNode }) {
  useEffect(() => {
    document.title = `${title} – Tracewarden`;
  }, [title]);
  return (
    <Group justify="space-between" mb="md" gap="xs">
      <Title order={1}>{title}</Title>
      <Group gap="xs">{children}</Group>
    </Group>
  );
}
