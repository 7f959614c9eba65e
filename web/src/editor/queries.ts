import { queryOptions } from "@tanstack/react-query";
import { type Api, api, unwrap } from "../api/client";
import { type Fix, fixCandidates, isImprovement } from "./fixes";

/** Maximum number of pages of users to read, which is enough to collect the attribute names. */
const MAX_PAGES = 4;

/** The first users by name, for administrators: their attributes for completion, and users to test policies with. */
export const knownUsersQuery = queryOptions({
  queryKey: ["known-users"],
  queryFn: async ({ signal }) => {
    const users: Api["User"][] = [];
    let cursor: string | undefined;
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const query = cursor === undefined ? { limit: 500 } : { limit: 500, cursor };
      const list = await unwrap(api.GET("/users", { params: { query }, signal }));
      users.push(...list.users);
      cursor = list.next_cursor;
      if (cursor === undefined) {
        break;
      }
    }
    return { users, complete: cursor === undefined };
  },
  staleTime: 60_000,
});

const checkExpression = (expression: string, signal: AbortSignal) =>
  unwrap(api.POST("/policies/check", { body: { expression }, signal }));

/** The service's diagnostics for an expression. Outdated requests are aborted. */
export const checkQuery = (expression: string) =>
  queryOptions({
    queryKey: ["policy-check", expression],
    queryFn: ({ signal }) => checkExpression(expression, signal),
    staleTime: 60_000,
    gcTime: 60_000,
  });

/** Maximum number of hints that are tested at once. */
const MAX_FIXES = 4;

/** The replacements for each diagnostic that the service finds better than the current text. */
export const fixesQuery = (expression: string, checkResult: Api["CheckResult"] | undefined) =>
  queryOptions({
    // Fixes are assigned to diagnostics by index, so that other diagnostics on the same text need a new query.
    queryKey: ["policy-fixes", expression, checkResult?.errors, checkResult?.warnings],
    queryFn: async ({ signal }) => {
      const diagnostics = checkResult === undefined ? [] : [...checkResult.errors, ...checkResult.warnings];
      const candidates = diagnostics
        .flatMap((diagnostic, index) => fixCandidates(expression, diagnostic).map((fix) => ({ index, fix })))
        .slice(0, MAX_FIXES);
      const testedCandidates = await Promise.all(
        candidates.map(async (candidate) => ({
          ...candidate,
          newResult: await checkExpression(candidate.fix.text, signal),
        })),
      );
      const fixes: Fix[][] = diagnostics.map(() => []);
      for (const { index, fix, newResult } of testedCandidates) {
        if (checkResult !== undefined && isImprovement(newResult, checkResult)) {
          fixes[index]?.push(fix);
        }
      }
      return fixes;
    },
    enabled: checkResult !== undefined && checkResult.errors.length + checkResult.warnings.length > 0,
    staleTime: 60_000,
    gcTime: 60_000,
  });
