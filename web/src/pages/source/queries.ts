import { queryOptions } from "@tanstack/react-query";
import { api, ifMatch, unwrap, unwrapWithEtag } from "../../api/client";
import { invalidate, queryClient, rolesQuery } from "../../api/queries";
import { draftOf, newPolicy } from "../roles/draft";
import { roleQuery, saveRole } from "../roles/queries";
import { invalidateUser, userQuery } from "../users/queries";

/** The binding and the fields, with the ETag for a change. */
export const schemaQuery = queryOptions({
  queryKey: ["schema"],
  queryFn: async ({ signal }) => {
    const { data, etag } = await unwrapWithEtag(api.GET("/schema", { signal }));
    return { model: data, etag: etag ?? "*" };
  },
});

export const tablesQuery = queryOptions({
  queryKey: ["schema", "tables"],
  queryFn: async ({ signal }) => (await unwrap(api.GET("/schema/tables", { signal }))).tables,
  staleTime: 60_000,
});

/** Columns, keys and examples of a table. Each request is audited because of the example values, so that it is sent only once
 * while the page is used. */
export const tableQuery = (database: string, table: string) =>
  queryOptions({
    queryKey: ["schema", "table", database, table],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/schema/tables/{database}/{table}", { signal, params: { path: { database, table } } })),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });

export const ddlQuery = queryOptions({
  queryKey: ["schema", "ddl"],
  queryFn: ({ signal }) => unwrap(api.GET("/schema/ddl", { signal })),
  staleTime: 60_000,
  refetchOnWindowFocus: false,
});

/** Must be called after a change of the binding or the fields, to update dependent data. */
export async function invalidateSource(): Promise<void> {
  await Promise.all([
    queryClient.invalidateQueries({ queryKey: schemaQuery.queryKey, exact: true }),
    // Whether an expression is valid depends on the fields.
    invalidate(ddlQuery.queryKey, ["filter-schema"], ["policy-check"], ["policy-fixes"]),
  ]);
}

/** Number of traces in the last hours that the caller can see: up to 25, and whether there are more. */
export async function countVisibleTraces(hours: number): Promise<{ traces: number; more: boolean }> {
  const now = Date.now();
  const page = await unwrap(
    api.POST("/traces/query", {
      body: {
        view: "ids",
        limit: 25,
        from: new Date(now - hours * 3_600_000).toISOString(),
        to: new Date(now).toISOString(),
      },
    }),
  );
  if (typeof page === "string") {
    throw new Error("The service returned an unexpected response format.");
  }
  return { traces: page.trace_ids?.length ?? 0, more: page.next_cursor !== undefined };
}

/** Grants the caller a role with a policy: creates or extends the role, then assigns it. The operation is idempotent. */
export async function assignRole(
  username: string,
  role: string,
  policy: { title: string; expression: string },
): Promise<void> {
  const { roles } = await queryClient.fetchQuery({ ...rolesQuery, staleTime: 0 });
  const existingRole = roles.some(({ name }) => name === role)
    ? await queryClient.fetchQuery({ ...roleQuery(role), staleTime: 0 })
    : null;
  const policies =
    existingRole === null ? [] : draftOf(existingRole.data.policies, existingRole.data.revision);
  if (!policies.some(({ expression }) => expression === policy.expression)) {
    await saveRole(role, [...policies, newPolicy(policy)], existingRole?.etag ?? null);
  }
  const user = await queryClient.fetchQuery({ ...userQuery(username), staleTime: 0 });
  if (!user.data.roles.includes(role)) {
    await unwrap(
      api.PATCH("/users/{username}", {
        params: { path: { username }, ...ifMatch(user.etag) },
        body: { roles: [...user.data.roles, role] },
      }),
    );
  }
  await Promise.all([invalidateUser(username), invalidate(["filter-schema"], ["filter-values"])]);
}
