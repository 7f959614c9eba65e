import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type Api, api, ask } from "../../api/client";
import { previewChanged } from "../../app/preview";
import { errorText } from "../../components/errorText";
import { visible } from "../../lib/visible";

/** Begins a preview, and goes to where its effect is seen. */
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

/** The same for a user, from a button that has no place for an error. */
export function useViewAsUser(username: string): { isPending: boolean; begin: () => void } {
  const { isPending, mutate } = useViewAs();
  const begin = () =>
    mutate(
      { username },
      {
        onError: (error) =>
          notifications.show({
            color: "red",
            title: "The preview did not begin",
            message: visible(errorText(error)),
          }),
      },
    );
  return { isPending, begin };
}
