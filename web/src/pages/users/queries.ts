import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, ask, askWithTag } from "../../api/client";
import { queryClient } from "../../api/queries";

const PAGE = 200;

/** The users, page after page, by name. */
export const usersQuery = infiniteQueryOptions({
  queryKey: ["users"],
  queryFn: ({ pageParam, signal }) =>
    ask(
      api.GET("/users", {
        params: { query: { limit: PAGE, ...(pageParam === null ? {} : { cursor: pageParam }) } },
        signal,
      }),
    ),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.next_cursor ?? null,
});

/** One user, with the tag that a change has to name. */
export const userQuery = (username: string) =>
  queryOptions({
    queryKey: ["user", username],
    queryFn: ({ signal }) =>
      askWithTag(api.GET("/users/{username}", { params: { path: { username } }, signal })),
  });

/** Roles, policies and attributes as they apply now. */
export const accessQuery = (username: string) =>
  queryOptions({
    queryKey: ["user", username, "access"],
    queryFn: ({ signal }) =>
      ask(api.GET("/users/{username}/access", { params: { path: { username } }, signal })),
  });

export const userSessionsQuery = (username: string) =>
  queryOptions({
    queryKey: ["user", username, "sessions"],
    queryFn: ({ signal }) =>
      ask(api.GET("/users/{username}/sessions", { params: { path: { username } }, signal })),
  });

export const userKeysQuery = (username: string) =>
  queryOptions({
    queryKey: ["user", username, "api-keys"],
    queryFn: ({ signal }) =>
      ask(api.GET("/users/{username}/api-keys", { params: { path: { username } }, signal })),
  });

/** After a change of a user: what is shown of them, of all users, of roles with their members, and of oneself. */
export function userChanged(username: string): Promise<unknown> {
  return Promise.all(
    [["user", username], ["users"], ["roles"], ["role"], ["me"]].map((queryKey) =>
      queryClient.invalidateQueries({ queryKey }),
    ),
  );
}
