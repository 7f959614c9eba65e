import { queryOptions } from "@tanstack/react-query";
import { api, unwrap, unwrapWithEtag } from "../../api/client";

/** The identity providers; for administrators only. */
export const providersQuery = queryOptions({
  queryKey: ["identity-providers"],
  queryFn: ({ signal }) => unwrap(api.GET("/identity/providers", { signal })),
});

/** The mapping of a provider. */
export const mappingQuery = (provider: string) =>
  queryOptions({
    queryKey: ["mapping", provider],
    queryFn: ({ signal }) =>
      unwrapWithEtag(
        api.GET("/identity/providers/{provider}/mapping", { params: { path: { provider } }, signal }),
      ),
  });
