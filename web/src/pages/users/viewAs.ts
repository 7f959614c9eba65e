import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type Api, api, unwrap } from "../../api/client";
import { refreshMe } from "../../app/refreshMe";
import { errorText } from "../../components/errorText";
import { plainMessage } from "../../lib/messages";
import { sanitize } from "../../lib/sanitize";

/** Starts a preview and opens the search. */
export function useViewAs() {
  const navigate = useNavigate();
  return useMutation({
    mutationFn: (body: Api["PreviewRequest"]) => unwrap(api.PUT("/me/preview", { body })),
    onSuccess: async () => {
      await refreshMe();
      await navigate({ to: "/search" });
    },
  });
}

/** The same for a user, for a button without its own error display. */
export function useViewAsUser(username: string): { isPending: boolean; start: () => void } {
  const { isPending, mutate } = useViewAs();
  const start = () =>
    mutate(
      { username },
      {
        onError: (error) =>
          notifications.show({
            color: "red",
            title: "The preview could not be started",
            message: sanitize(plainMessage(errorText(error))),
          }),
      },
    );
  return { isPending, start };
}
