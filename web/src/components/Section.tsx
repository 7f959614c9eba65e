import { Group, Paper, Text, Title } from "@mantine/core";
import { type ReactNode, useId } from "react";

/** A section of a page with its own heading, and actions to the right. */
export function Section({
  title,
  description,
  actions,
  children,
}: {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  const id = useId();
  return (
    <Paper component="section" withBorder p="md" aria-labelledby={id}>
      <Group justify="space-between" gap="xs" mb={description === undefined ? "sm" : 4}>
        <Title order={2} id={id}>
          {title}
        </Title>
        <Group gap="xs">{actions}</Group>
      </Group>
      {description !== undefined && (
        <Text component="div" size="sm" c="dimmed" mb="sm">
          {description}
        </Text>
      )}
      {children}
    </Paper>
  );
}
