import { Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

/** Notice that a page or list is empty, with possible actions. */
export function EmptyState({
  title,
  children,
  icon,
}: {
  title: string;
  children?: ReactNode;
  icon?: ReactNode;
}) {
  return (
    <Stack align="center" gap="xs" py="xl" px="md" ta="center">
      {icon}
      <Title order={2} size="h3">
        {title}
      </Title>
      <Text component="div" c="dimmed" maw={560}>
        {children}
      </Text>
    </Stack>
  );
}
