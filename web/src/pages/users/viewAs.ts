import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type Api, api, unwrap } from "../../api/client";
import { refreshMe } from "../../app/refreshMe";

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
