import { queryOptions } from "@tanstack/react-query";
import { type Api, api, ask } from "../api/client";
import { better, candidates, type Fix } from "./fixes";

/** Most users that are looked at: enough to know which attributes there are. */
const MOST_PAGES = 4;

/** The first users by name, for administrators: whose attributes policies can name, and whom they can be tried for. */
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

/** What the service says of an expression. An answer that is no longer waited for is given up. */
export const checkQuery = (expression: string) =>
  queryOptions({
    queryKey: ["policy-check", expression],
    queryFn: ({ signal }) => check(expression, signal),
    staleTime: 60_000,
    gcTime: 60_000,
  });

/** Hints that are tried at once, at most. */
const MOST_FIXES = 4;

/** For each remark, the replacements that the service finds better than what is written. */
export const fixesQuery = (expression: string, checked: Api["CheckResult"] | undefined) =>
  queryOptions({
    // Fixes belong to remarks by their order: with other remarks on the same text they are looked for anew.
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
