import { Badge, Group, Text } from "@mantine/core";

/** The roles of a user, at most `max` of them by name. */
export function RoleBadges({
  roles,
  max = Number.POSITIVE_INFINITY,
}: {
  roles: readonly string[];
  max?: number;
}) {
  const hiddenRoles = roles.slice(max);
  return (
    <Group gap={4}>
      {roles.slice(0, max).map((role) => (
        <Badge key={role} variant="default" radius="sm" fw={500}>
          {role}
        </Badge>
      ))}
      {hiddenRoles.length > 0 && (
        <Text span size="xs" c="dimmed" title={hiddenRoles.join(", ")}>
          and {hiddenRoles.length} more
        </Text>
      )}
    </Group>
  );
}
