import { queryOptions } from "@tanstack/react-query";
import { type Api, api, ask } from "../api/client";
import { better, candidates, type Fix } from "./fixes";

/** Maximum number of pages of users to read, which is enough to collect the attribute names. */
const MOST_PAGES = 4;

/** The first users by name, for administrators: their attributes for completion, and users to test policies with. */
export const knownUsersQuery = queryOptions({
  queryKey: ["known-users"],
  queryFn: async ({ signal }) => {
    const users: Api["User"][] = [];
    let cursor: string | undefined;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const query = cursor === undefined ? { limit: 500 } : { limit: 500, cursor };
      const found = await ask(api.GET("/users", { params: { query }, signal }));
      users.push(...found.users);
      cursor = found.next_cursor;
      if (cursor === undefined) {
        break;
      }
    }
    return { users, complete: cursor === undefined };
  },
  staleTime: 60_000,
});

const check = (expression: string, signal?: AbortSignal) =>
  ask(api.POST("/policies/check", { body: { expression }, ...(signal === undefined ? {} : { signal }) }));

/** The service's diagnostics for an expression. Outdated requests are aborted. */
export const checkQuery = (expression: string) =>
  queryOptions({
    queryKey: ["policy-check", expression],
    queryFn: ({ signal }) => check(expression, signal),
    staleTime: 60_000,
    gcTime: 60_000,
  });

/** Maximum number of hints that are tested at once. */
const MOST_FIXES = 4;

/** The replacements for each diagnostic that the service finds better than the current text. */
export const fixesQuery = (expression: string, checked: Api["CheckResult"] | undefined) =>
  queryOptions({
    // Fixes are assigned to diagnostics by index, so that other diagnostics on the same text need a new query.
    queryKey: ["policy-fixes", expression, checked?.errors, checked?.warnings],
    queryFn: async ({ signal }) => {
      const remarks = checked === undefined ? [] : [...checked.errors, ...checked.warnings];
      const guesses = remarks
        .flatMap((remark, index) => candidates(expression, remark).map((fix) => ({ index, fix })))
        .slice(0, MOST_FIXES);
      const tried = await Promise.all(
        guesses.map(async (guess) => ({ ...guess, after: await check(guess.fix.text, signal) })),
      );
      const fixes: Fix[][] = remarks.map(() => []);
      for (const { index, fix, after } of tried) {
        if (checked !== undefined && better(after, checked)) {
          fixes[index]?.push(fix);
        }
      }
      return fixes;
    },
    enabled: checked !== undefined && checked.errors.length + checked.warnings.length > 0,
    staleTime: 60_000,
    gcTime: 60_000,
  });
