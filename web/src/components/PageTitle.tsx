import { Group, Title } from "@mantine/core";
import { type ReactNode, useEffect } from "react";

/** Heading of a page, which is also the document title, with actions to the right. */
export function PageTitle({
  title,
  isDense = false,
  children,
}: {
  title: string;
  /** Whether the page needs its height for something else. */
  isDense?: boolean;
  children?: ReactNode;
}) {
  useEffect(() => {
    document.title = `${title} – Tracewarden`;
  }, [title]);
  return (
    <Group justify="space-between" mb={isDense ? 2 : "md"} gap="xs">
      <Title order={1} size={isDense ? "h3" : "h1"}>
        {title}
      </Title>
      <Group gap="xs">{children}</Group>
    </Group>
  );
}
