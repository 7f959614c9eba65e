import { QueryClient, type QueryKey, queryOptions } from "@tanstack/react-query";
import { ApiError, api, hasStatus, unwrap } from "./client";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // Client errors are permanent. After other errors, such as during a restart of the service, the request is retried.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
    },
  },
});

/** Marks queries as outdated, by the beginnings of their keys. */
export const invalidate = (...keys: QueryKey[]): Promise<unknown> =>
  Promise.all(keys.map((queryKey) => queryClient.invalidateQueries({ queryKey })));

/** Options of a query that is sent only once, and again on request: it is expensive in ClickHouse, or audited. */
export const RUN_ONCE = {
  staleTime: Number.POSITIVE_INFINITY,
  retry: false,
  refetchOnWindowFocus: false,
  refetchOnReconnect: false,
} as const;

/** The signed-in user, or `null`. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ signal }) => {
    try {
      return await unwrap(api.GET("/me", { signal }));
    } catch (error) {
      if (hasStatus(error, 401)) {
        return null;
      }
      throw error;
    }
  },
  staleTime: 60_000,
  // Another window may have signed in as another user.
  refetchOnWindowFocus: "always",
});

/** The ways to sign in. */
export const signInMethodsQuery = queryOptions({
  queryKey: ["sign-in-methods"],
  queryFn: ({ signal }) => unwrap(api.GET("/identity/methods", { signal })),
  staleTime: 60_000,
});

/** All roles; for administrators only. */
export const rolesQuery = queryOptions({
  queryKey: ["roles"],
  queryFn: ({ signal }) => unwrap(api.GET("/roles", { signal })),
});

/** The fields that the caller may use in conditions. */
export const filterSchemaQuery = queryOptions({
  queryKey: ["filter-schema"],
  queryFn: ({ signal }) => unwrap(api.GET("/filter/schema", { signal })),
});
