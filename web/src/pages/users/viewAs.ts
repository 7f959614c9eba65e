import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type Api, api, ask } from "../../api/client";
import { previewChanged } from "../../app/preview";
import { errorText } from "../../components/errorText";
import { plainMessage } from "../../lib/messages";
import { visible } from "../../lib/visible";

/** Starts a preview and opens the search. */
export function useViewAs() {
  const navigate = useNavigate();
  return useMutation({
    mutationFn: (body: Api["PreviewRequest"]) => ask(api.PUT("/me/preview", { body })),
    onSuccess: async () => {
      await previewChanged();
      await navigate({ to: "/search" });
    },
  });
}

/** The same for a user, for a button without its own error display. */
export function useViewAsUser(username: string): { isPending: boolean; begin: () => void } {
  const { isPending, mutate } = useViewAs();
  const begin = () =>
    mutate(
      { username },
      {
        onError: (error) =>
          notifications.show({
            color: "red",
            title: "The preview could not be started",
            message: visible(plainMessage(errorText(error))),
          }),
      },
    );
  return { isPending, begin };
}
