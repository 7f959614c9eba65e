import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { type Api, api, ask } from "../../api/client";
import { type AuditFilter, filterOf } from "./filter";
import type { AuditUrl } from "./url";

/** A page of the records that match a filter. */
export function auditPage(
  filter: AuditFilter,
  cursor: string | undefined,
  limit: number,
  signal: AbortSignal,
): Promise<Api["AuditList"]> {
  const query = { ...filter, limit, ...(cursor === undefined ? {} : { cursor }) };
  return ask(api.GET("/audit", { params: { query }, signal }));
}

const PAGE = 100;
/** Page size for a search of one request's records among those of others. */
const PAGE_OF_REQUEST = 500;

type Param = { filter: AuditFilter; cursor: string } | null;

/** The records that match the URL, newest first. */
export function auditQuery(url: AuditUrl) {
  const { record: _, ...asked } = url;
  return infiniteQueryOptions({
    queryKey: ["audit", asked],
    queryFn: async ({ pageParam, signal }) => {
      // A relative time is resolved once for all pages.
      const filter = pageParam?.filter ?? filterOf(asked, new Date());
      const limit = asked.request === undefined ? PAGE : PAGE_OF_REQUEST;
      return { filter, ...(await auditPage(filter, pageParam?.cursor, limit, signal)) };
    },
    initialPageParam: null as Param,
    getNextPageParam: ({ filter, next_cursor }): Param =>
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
    return (await auditPage(filter, undefined, 1, signal)).records[0] ?? null;
  },
  staleTime: 60_000,
});
