import { queryOptions } from "@tanstack/react-query";
import { api, ask } from "../../../api/client";
import { queryClient } from "../../../api/queries";

/** Each costs a look at the trace store and leaves a record, so that none is asked for by itself a second time. */
const ONCE = {
  staleTime: Number.POSITIVE_INFINITY,
  gcTime: 60_000,
  refetchOnReconnect: false,
  retry: false,
} as const;

/** Why the caller, or for administrators another user, sees the trace or does not. */
export const explainQuery = (id: string, user: string | null) =>
  queryOptions({
    queryKey: ["trace-access", id, "explain", user],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/traces/{id}/explain", {
          params: { path: { id }, query: user === null ? {} : { user } },
          signal,
        }),
      ),
    ...ONCE,
  });

/** Who can see the trace; for administrators. */
export const viewersQuery = (id: string) =>
  queryOptions({
    queryKey: ["trace-access", id, "viewers"],
    queryFn: ({ signal }) => ask(api.GET("/traces/{id}/viewers", { params: { path: { id } }, signal })),
    ...ONCE,
  });

/** For when the trace is loaded again: spans that have arrived since may open it to others. It is asked for anew when it is shown. */
export function forgetAccess(id: string): void {
  queryClient.removeQueries({ queryKey: ["trace-access", id] });
}
