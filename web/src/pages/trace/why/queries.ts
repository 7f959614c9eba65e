import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "../../../api/client";
import { queryClient, RUN_ONCE } from "../../../api/queries";

/** Each request writes an audit record. */
const OPTIONS = { ...RUN_ONCE, gcTime: 60_000 };

/** Explains why the caller or, for administrators, another user sees the trace or not. */
export const explainQuery = (id: string, user: string | null) =>
  queryOptions({
    queryKey: ["trace-access", id, "explain", user],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/traces/{id}/explain", {
          params: { path: { id }, query: user === null ? {} : { user } },
          signal,
        }),
      ),
    ...OPTIONS,
  });

/** Users who can see the trace; for administrators only. */
export const viewersQuery = (id: string) =>
  queryOptions({
    queryKey: ["trace-access", id, "viewers"],
    queryFn: ({ signal }) => unwrap(api.GET("/traces/{id}/viewers", { params: { path: { id } }, signal })),
    ...OPTIONS,
  });

/** Must be called when the trace is reloaded: new spans may grant access to other users. The explanations are then requested
 * again when they are shown. */
export function removeAccessQueries(id: string): void {
  queryClient.removeQueries({ queryKey: ["trace-access", id] });
}
