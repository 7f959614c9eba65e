import { useMediaQuery } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { type Api, api, unwrap } from "../../api/client";
import { RUN_ONCE } from "../../api/queries";
import { writeJson } from "../../lib/json";
import type { Field } from "./fields";
import type { SearchState } from "./searchState";

/** First part of the key of every query for statistics. */
export const STATS_KEY = "trace-stats";
/** Maximum number of bars; a bar is some pixels wide. */
const BUCKETS = 120;
/** Maximum number of facets that the service computes. */
const MAX_FACETS = 10;

/** Fields whose most frequent values are counted: of text, columns first, since keys of maps have many values more often. */
export function facetFields(fields: readonly Field[]): Field[] {
  const isFacet = ({ type, map, name }: Field) =>
    (type === "string" || type === "string_array") &&
    !(map === "" && /^(trace|span|parent)_?.*id$/i.test(name));
  const isKey = ({ map }: Field) => (map === "" ? 0 : 1);
  return fields
    .filter(isFacet)
    .sort((a, b) => isKey(a) - isKey(b))
    .slice(0, MAX_FACETS);
}

/** Statistics over time and the facets of a search. They are computed once its first page is complete, so that it does not wait for
 * them. */
export function useStats(search: SearchState | undefined, fields: readonly Field[], viewer: string) {
  // On narrow screens there is no room for facets, and ClickHouse need not count them.
  const showsFacets = useMediaQuery("(min-width: 84em)", undefined, { getInitialValueInEffect: false });
  const facets = showsFacets ? facetFields(fields).map((field) => field.ref) : [];
  return useStatsQuery(search, viewer, { per: "trace", buckets: BUCKETS, facets });
}

/** Statistics over all traces of a search, loaded or not. Until they arrive, those of the previous request stay, but never those of
 * another user or access. */
export function useStatsQuery(
  search: SearchState | undefined,
  viewer: string,
  options: Omit<Api["StatsQuery"], "filter" | "from" | "to">,
) {
  const body =
    search === undefined ? null : { filter: search.request.filter, ...search.request.window, ...options };
  return useQuery({
    queryKey: [STATS_KEY, viewer, body, search?.startedAt],
    queryFn: ({ signal }) =>
      unwrap(
        api.POST("/traces/stats", {
          body: body as Api["StatsQuery"],
          // Large integers in conditions stay exact.
          bodySerializer: (body) => writeJson(body, 0),
          signal,
        }),
      ),
    placeholderData: (previous, query) => (query?.queryKey[1] === viewer ? previous : undefined),
    enabled: body !== null,
    ...RUN_ONCE,
  });
}
