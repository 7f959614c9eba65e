/** What the address says of a search. */
export type SearchUrl = Record<string, unknown>;

export function searchOfUrl(search: Record<string, unknown>): SearchUrl {
  return search;
}
