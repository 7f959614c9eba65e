import type { Api } from "../../api/client";

type TraceOrder = Api["TraceOrder"];

/** Orders of traces. The key is the name in the URL, `api` the one in the API. The service applies the order to all matching traces of
 * the window. */
export const ORDERS = {
  newest: { api: "newest", label: "Newest first", description: "newest" },
  longest: { api: "longest", label: "Longest first", description: "longest" },
  errors: { api: "most_errors", label: "Most errors first", description: "with the most errors" },
  spans: { api: "most_spans", label: "Most spans first", description: "with the most spans" },
} as const satisfies Record<string, { api: TraceOrder; label: string; description: string }>;

export type Order = keyof typeof ORDERS;

export function isOrder(text: string): text is Order {
  return Object.hasOwn(ORDERS, text);
}
