import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { type Api, api, unwrap } from "../../api/client";
import { omitUndefined } from "../../lib/urlParams";
import { type AuditFilter, resolveFilter } from "./filter";
import type { AuditUrl } from "./url";

/** A page of the records that match a filter. */
export function fetchAuditPage(
  filter: AuditFilter,
  cursor: string | undefined,
  limit: number,
  signal: AbortSignal,
): Promise<Api["AuditList"]> {
  const query = omitUndefined({ ...filter, limit, cursor });
  return unwrap(api.GET("/audit", { params: { query }, signal }));
}

const PAGE_SIZE = 100;
/** Page size for a search of one request's records among those of others. */
const REQUEST_PAGE_SIZE = 500;

type PageParam = { filter: AuditFilter; cursor: string } | null;

/** The records that match the URL, newest first. */
export function auditQuery(url: AuditUrl) {
  const { record: _, ...filters } = url;
  return infiniteQueryOptions({
    queryKey: ["audit", filters],
    queryFn: async ({ pageParam, signal }) => {
      // A relative time is resolved once for all pages.
      const filter = pageParam?.filter ?? resolveFilter(filters, new Date());
      const limit = filters.request === undefined ? PAGE_SIZE : REQUEST_PAGE_SIZE;
      return { filter, ...(await fetchAuditPage(filter, pageParam?.cursor, limit, signal)) };
    },
    initialPageParam: null as PageParam,
    getNextPageParam: ({ filter, next_cursor }): PageParam =>
      next_cursor === undefined ? null : { filter, cursor: next_cursor },
    placeholderData: keepPreviousData,
    // A refetch would load all pages again and move the list while it is being read.
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
}

/** The newest removal of old records. */
export const pruningQuery = queryOptions({
  queryKey: ["audit-pruning"],
  queryFn: async ({ signal }) => {
    const filter = { action: "audit.prune", outcome: "success" } as const;
    return (await fetchAuditPage(filter, undefined, 1, signal)).records[0] ?? null;
  },
  staleTime: 60_000,
});
