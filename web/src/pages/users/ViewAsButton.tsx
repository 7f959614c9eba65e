import { Button } from "@mantine/core";
import { IconEye } from "@tabler/icons-react";
import { notifyError } from "../../components/notifyError";
import { useViewAs } from "./viewAs";

/** Starts a preview of a user, which shows the traces that the user sees. */
export function ViewAsButton({ username, label }: { username: string; label: string }) {
  const { isPending, mutate } = useViewAs();
  const onError = (error: unknown) => notifyError("The preview could not be started", error);
  return (
    <Button
      size="xs"
      variant="default"
      leftSection={<IconEye size={14} aria-hidden />}
      loading={isPending}
      onClick={() => mutate({ username }, { onError })}
    >
      {label}
    </Button>
  );
}
