import { queryOptions, skipToken, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { ApiError } from "../../api/client";
import { queryClient } from "../../api/queries";
import { writeJson } from "../../lib/json";
import type { WireFilter } from "./conditions";
import { fetchPage } from "./fetchPage";
import type { Line } from "./ndjson";
import type { Order } from "./order";
import { type Range, windowOf } from "./range";
import { addLines, continueSearch, type SearchState, startSearch } from "./searchState";

/** A search to run; `viewer` identifies the user and access that it runs with. */
export type Search = {
  readonly filter: WireFilter;
  readonly order: Order;
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
const UPDATE_INTERVAL_MS = 80;

/** Delays before retries of a failed search. */
const RETRY_DELAYS_MS = [3_000, 10_000, 30_000, 60_000];

/** Whether the same search may succeed a little later: the service or ClickHouse could not be reached, or was busy. */
function isTransient(error: unknown): boolean {
  return error instanceof ApiError
    ? ["unavailable", "overloaded", "too_many_queries"].includes(error.code) || error.status === 502
    : true;
}

/** Runs a search, unless its results are cached. */
export function useSearch(search: Search | null) {
  const key = search === null ? "" : writeJson(search, 0);
  const { data: state } = useQuery(stateQuery(key));
  const controller = useRef<AbortController | null>(null);

  const start = useCallback(async (key: string, from: SearchState) => {
    controller.current?.abort();
    const ownController = new AbortController();
    controller.current = ownController;
    const { queryKey } = stateQuery(key);
    const update = (next: (previous: SearchState) => SearchState) => {
      if (!ownController.signal.aborted) {
        queryClient.setQueryData(queryKey, (previous) =>
          previous === undefined ? undefined : next(previous),
        );
      }
    };
    queryClient.setQueryData(queryKey, from);
    const startedAt = Date.now();
    const elapsed = () => from.elapsedMs ?? Date.now() - startedAt;
    let pendingLines: Line[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      clearTimeout(timer);
      timer = undefined;
      const lines = pendingLines;
      pendingLines = [];
      if (lines.length > 0) {
        update((previous) => addLines(previous, lines));
      }
    };
    try {
      for await (const lines of fetchPage(from.request, from.cursor, ownController.signal)) {
        pendingLines.push(...lines);
        timer ??= setTimeout(flush, UPDATE_INTERVAL_MS);
      }
      flush();
      update((previous) => ({ ...previous, status: "done", elapsedMs: elapsed(), progress: null }));
    } catch (error) {
      flush();
      update((previous) => ({ ...previous, status: "failed", elapsedMs: elapsed(), error }));
    }
  }, []);

  const startNew = useCallback(
    (search: Search) => {
      const { filter, order } = search;
      const request = { filter, order, window: windowOf(search.range, new Date()) };
      void start(writeJson(search, 0), startSearch(request, Date.now()));
    },
    [start],
  );

  useEffect(
    () => () => {
      controller.current?.abort();
      const { queryKey } = stateQuery(key);
      const last = queryClient.getQueryData(queryKey);
      // An unfinished search without a complete page is removed, and runs again when the user returns to it. Complete pages stay.
      if (last?.status === "running" && last.pages === 0) {
        queryClient.removeQueries({ queryKey, exact: true });
      } else if (last?.status === "running") {
        queryClient.setQueryData(queryKey, { ...last, status: "cancelled", progress: null });
      }
    },
    [key],
  );

  // biome-ignore lint/correctness/useExhaustiveDependencies: the key represents the search, which is another object each time
  useEffect(() => {
    if (search !== null && state === undefined) {
      startNew(search);
    }
  }, [key, state === undefined, startNew]);

  // Transient errors are retried with increasing delays while the page is visible.
  const retries = useRef({ key, count: 0 });
  if (retries.current.key !== key || state?.status === "done") {
    retries.current = { key, count: 0 };
  }
  const isRetrying =
    state?.status === "failed" && isTransient(state.error) && retries.current.count < RETRY_DELAYS_MS.length;
  useEffect(() => {
    if (!isRetrying || state === undefined) {
      return;
    }
    const retry = () => {
      if (document.visibilityState === "visible") {
        retries.current.count += 1;
        void start(key, continueSearch(state));
      } else {
        timer = setTimeout(retry, 1_000);
      }
    };
    let timer = setTimeout(retry, RETRY_DELAYS_MS[retries.current.count]);
    return () => clearTimeout(timer);
  }, [isRetrying, state, key, start]);

  return {
    state,
    isRetrying,
    restart: () => {
      if (search !== null) {
        startNew(search);
      }
    },
    loadMore: () => {
      if (state !== undefined && state.status !== "running" && (state.cursor !== null || state.pages === 0)) {
        void start(key, continueSearch(state));
      }
    },
    cancel: () => {
      controller.current?.abort();
      queryClient.setQueryData(stateQuery(key).queryKey, (previous): SearchState | undefined =>
        previous?.status === "running" ? { ...previous, status: "cancelled" } : previous,
      );
    },
  };
}
