import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, unwrap, unwrapWithEtag } from "../../api/client";
import { invalidate } from "../../api/queries";

const PAGE_SIZE = 200;

/** Prefix of the keys of queries for users. */
export const USERS_KEY = ["users"];

/** The people or the service accounts by name, in pages. */
export const usersQuery = (kind: "person" | "service") =>
  infiniteQueryOptions({
    queryKey: [...USERS_KEY, kind],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        api.GET("/users", {
          params: { query: { kind, limit: PAGE_SIZE, ...(pageParam === null ? {} : { cursor: pageParam }) } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? null,
  });

/** A user, with the ETag for a change. */
export const userQuery = (username: string) =>
  queryOptions({
    queryKey: ["user", username],
    queryFn: ({ signal }) =>
      unwrapWithEtag(api.GET("/users/{username}", { params: { path: { username } }, signal })),
  });

/** A user's current roles, policies and attributes. */
export const accessQuery = (username: string) =>
  queryOptions({
    queryKey: ["user", username, "access"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/users/{username}/access", { params: { path: { username } }, signal })),
  });

export const userSessionsQuery = (username: string) =>
  queryOptions({
    queryKey: ["user", username, "sessions"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/users/{username}/sessions", { params: { path: { username } }, signal })),
  });

export const userKeysQuery = (username: string) =>
  queryOptions({
    queryKey: ["user", username, "api-keys"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/users/{username}/api-keys", { params: { path: { username } }, signal })),
  });

/** Must be called after a change of a user. Refetches this user, all users, roles with their members, and the signed-in user. */
export function invalidateUser(username: string): Promise<unknown> {
  return invalidate(["user", username], USERS_KEY, ["roles"], ["role"], ["me"]);
}
