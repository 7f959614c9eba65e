import { Group, Title } from "@mantine/core";
import { type ReactNode, useEffect } from "react";

/** The heading of a page, which is also the document's title. Actions stand to its right. */
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
