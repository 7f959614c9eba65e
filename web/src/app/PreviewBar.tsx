import { Button, Group, Text } from "@mantine/core";
import { IconEye } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { type Api, api, unwrap } from "../api/client";
import { refreshMe } from "./refreshMe";

/** Notice on every page that the administrator views traces as another user or role. */
export function PreviewBar({ preview }: { preview: Api["Preview"] }) {
  const endPreview = useMutation({
    mutationFn: () => unwrap(api.DELETE("/me/preview")),
    onSuccess: refreshMe,
  });
  const subject =
    preview.username === undefined
      ? preview.roles.length === 0
        ? "a user without roles"
        : `a user with ${preview.roles.join(", ")}`
      : preview.username;
  return (
    <Group role="status" h={36} px="md" gap="sm" wrap="nowrap" justify="center" bg="yellow.3" c="black">
      <IconEye size={18} aria-hidden />
      <Text size="sm" fw={600} truncate>
        You see traces as {subject} would
      </Text>
      <Button
        size="compact-xs"
        color="dark"
        loading={endPreview.isPending}
        onClick={() => endPreview.mutate()}
      >
        {endPreview.isError ? "Ending failed; try again" : "End preview"}
      </Button>
    </Group>
  );
}
