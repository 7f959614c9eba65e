import { queryOptions } from "@tanstack/react-query";
import { type Api, api, ask, askWithTag } from "../../api/client";
import { queryClient, rolesQuery } from "../../api/queries";
import { type DraftPolicy, requestOf } from "./draft";

/** A role with who holds it, and the tag that a change of it is tied to. */
export type LoadedRole = { data: Api["RoleDetail"]; tag: string | null };

export const roleQuery = (name: string) =>
  queryOptions({
    queryKey: ["role", name],
    queryFn: ({ signal }): Promise<LoadedRole> =>
      askWithTag(api.GET("/roles/{name}", { params: { path: { name } }, signal })),
  });

/** The warnings of each policy, as they came when the version was stored: reading a role does not tell them again. */
export const warningsKey = (name: string, revision: number) => ["role-warnings", name, revision];

/** Stores a role; only over the version with the tag, where there is one. */
export async function saveRole(
  name: string,
  draft: readonly DraftPolicy[],
  tag: string | null,
): Promise<{ data: Api["StoredRole"]; tag: string | null }> {
  const params = { path: { name }, ...(tag === null ? {} : { header: { "If-Match": tag } }) };
  const stored = await askWithTag(api.PUT("/roles/{name}", { params, body: requestOf(draft) }));
  queryClient.setQueryData(
    warningsKey(name, stored.data.revision),
    stored.data.policies.map(({ warnings }) => warnings),
  );
  void queryClient.invalidateQueries({ queryKey: rolesQuery.queryKey });
  return stored;
}

/** Deletes a role. `leave` goes to another page: what is known of the role is forgotten only when none shows it. */
export async function deleteRole(
  name: string,
  tag: string | null,
  leave: () => Promise<void>,
): Promise<void> {
  const params = { path: { name }, ...(tag === null ? {} : { header: { "If-Match": tag } }) };
  await ask(api.DELETE("/roles/{name}", { params }));
  // The list would ask for the role's holders once more.
  queryClient.setQueryData(rolesQuery.queryKey, (before) =>
    before === undefined ? before : { ...before, roles: before.roles.filter((role) => role.name !== name) },
  );
  await leave();
  queryClient.removeQueries({ queryKey: roleQuery(name).queryKey });
  // Users list the roles that they hold, oneself among them, and see what these open.
  await Promise.all(
    [["roles"], ["users"], ["user"], ["known-users"], ["me"], ["filter-schema"], ["filter-values"]].map(
      (queryKey) => queryClient.invalidateQueries({ queryKey }),
    ),
  );
}
