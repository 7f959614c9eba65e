import { queryOptions, skipToken, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { queryClient } from "../../api/queries";
import { writeJson } from "../../lib/json";
import type { WireCondition } from "./conditions";
import type { Line } from "./lines";
import { type Range, windowOf } from "./range";
import { page } from "./run";
import { continued, type SearchState, started, withLines } from "./state";

/** A search to run; `viewer` identifies the user and access that it runs with. */
export type Search = {
  readonly conditions: readonly WireCondition[];
  readonly range: Range;
  readonly viewer: string;
};

/** Stored in the query cache, so that the results are cleared with all others when the session or the access changes. */
const stateQuery = (key: string) =>
  queryOptions<SearchState>({
    queryKey: ["search", key],
    queryFn: skipToken,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 10 * 60_000,
  });

/** Milliseconds between updates of the page: lines may arrive one by one, and rendering takes longer than parsing. */
const SHOWN_EVERY = 80;

export type Run = {
  readonly state: SearchState | undefined;
  readonly again: () => void;
  readonly more: () => void;
  readonly cancel: () => void;
};

/** Runs a search, unless its results are cached. */
export function useSearch(search: Search | null): Run {
  const key = search === null ? "" : writeJson(search, 0);
  const { data: state } = useQuery(stateQuery(key));
  const controller = useRef<AbortController | null>(null);

  const start = useCallback(async (key: string, from: SearchState) => {
    controller.current?.abort();
    const own = new AbortController();
    controller.current = own;
    const { queryKey } = stateQuery(key);
    const change = (next: (old: SearchState) => SearchState) => {
      if (!own.signal.aborted) {
        queryClient.setQueryData(queryKey, (old) => (old === undefined ? undefined : next(old)));
      }
    };
    queryClient.setQueryData(queryKey, from);
    const asked = Date.now();
    const took = () => from.took ?? Date.now() - asked;
    let waiting: Line[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      clearTimeout(timer);
      timer = undefined;
      const lines = waiting;
      waiting = [];
      if (lines.length > 0) {
        change((old) => withLines(old, lines));
      }
    };
    try {
      for await (const lines of page(from.question, from.cursor, own.signal)) {
        waiting.push(...lines);
        timer ??= setTimeout(show, SHOWN_EVERY);
      }
      show();
      change((old) => ({ ...old, status: "done", took: took(), progress: null }));
    } catch (error) {
      show();
      change((old) => ({ ...old, status: "failed", took: took(), error }));
    }
  }, []);

  const begin = useCallback(
    (search: Search) => {
      const question = { conditions: search.conditions, window: windowOf(search.range, new Date()) };
      void start(writeJson(search, 0), started(question, Date.now()));
    },
    [start],
  );

  useEffect(
    () => () => {
      controller.current?.abort();
      const { queryKey } = stateQuery(key);
      const left = queryClient.getQueryData(queryKey);
      // An unfinished search without a complete page is removed, and runs again when the user returns to it. Complete pages stay.
      if (left?.status === "running" && left.pages === 0) {
        queryClient.removeQueries({ queryKey, exact: true });
      } else if (left?.status === "running") {
        queryClient.setQueryData(queryKey, { ...left, status: "cancelled", progress: null });
      }
    },
    [key],
  );

  // biome-ignore lint/correctness/useExhaustiveDependencies: the key represents the search, which is another object each time
  useEffect(() => {
    if (search !== null && state === undefined) {
      begin(search);
    }
  }, [key, state === undefined, begin]);

  return {
    state,
    again: () => {
      if (search !== null) {
        begin(search);
      }
    },
    more: () => {
      if (state !== undefined && state.status !== "running" && (state.cursor !== null || state.pages === 0)) {
        void start(key, continued(state));
      }
    },
    cancel: () => {
      controller.current?.abort();
      queryClient.setQueryData(stateQuery(key).queryKey, (old): SearchState | undefined =>
        old?.status === "running" ? { ...old, status: "cancelled" } : old,
      );
    },
  };
}
