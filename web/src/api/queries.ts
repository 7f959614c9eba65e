import { QueryClient, queryOptions } from "@tanstack/react-query";
import { ApiError, api, ask } from "./client";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // A refusal stays one; what could not be reached may have been restarted.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
    },
  },
});

/** Who is logged in; `null` for nobody. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ signal }) => {
    try {
      return await ask(api.GET("/me", { signal }));
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        return null;
      }
      throw error;
    }
  },
  staleTime: 60_000,
  // Another window may have logged in as somebody else.
  refetchOnWindowFocus: "always",
});

/** All roles; for administrators. */
export const rolesQuery = queryOptions({
  queryKey: ["roles"],
  queryFn: ({ signal }) => ask(api.GET("/roles", { signal })),
});

/** The fields that the caller may use in conditions. */
export const filterSchemaQuery = queryOptions({
  queryKey: ["filter-schema"],
  queryFn: ({ signal }) => ask(api.GET("/filter/schema", { signal })),
});
