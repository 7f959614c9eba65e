import { queryOptions } from "@tanstack/react-query";
import { type Api, api, ifMatch, unwrap, unwrapWithEtag, type WithEtag } from "../../api/client";
import { invalidate, queryClient, rolesQuery } from "../../api/queries";
import { type DraftPolicy, requestOf } from "./draft";

/** A role with its members. */
export type LoadedRole = WithEtag<Api["RoleDetail"]>;

export const roleQuery = (name: string) =>
  queryOptions({
    queryKey: ["role", name],
    queryFn: ({ signal }): Promise<LoadedRole> =>
      unwrapWithEtag(api.GET("/roles/{name}", { params: { path: { name } }, signal })),
  });

/** Query key for the warnings of each policy. Only the response to a save contains them. */
export const warningsKey = (name: string, revision: number) => ["role-warnings", name, revision];

/** Saves a role. With an ETag, only over the version with this ETag. */
export async function saveRole(
  name: string,
  draft: readonly DraftPolicy[],
  etag: string | null,
): Promise<WithEtag<Api["StoredRole"]>> {
  const params = { path: { name }, ...ifMatch(etag) };
  const stored = await unwrapWithEtag(api.PUT("/roles/{name}", { params, body: requestOf(draft) }));
  queryClient.setQueryData(
    warningsKey(name, stored.data.revision),
    stored.data.policies.map(({ warnings }) => warnings),
  );
  void invalidate(rolesQuery.queryKey);
  return stored;
}

/** Deletes a role. `leavePage` navigates to another page: the cached role is removed when no page shows it. */
export async function deleteRole(
  name: string,
  etag: string | null,
  leavePage: () => Promise<void>,
): Promise<void> {
  const params = { path: { name }, ...ifMatch(etag) };
  await unwrap(api.DELETE("/roles/{name}", { params }));
  // A refetch of the list would request the role's members again.
  queryClient.setQueryData(rolesQuery.queryKey, (before) =>
    before === undefined ? before : { ...before, roles: before.roles.filter((role) => role.name !== name) },
  );
  await leavePage();
  queryClient.removeQueries({ queryKey: roleQuery(name).queryKey });
  // The roles of users, including the signed-in one, and the traces that they can see have changed.
  await invalidate(
    ["roles"],
    ["users"],
    ["user"],
    ["known-users"],
    ["me"],
    ["filter-schema"],
    ["filter-values"],
  );
}
