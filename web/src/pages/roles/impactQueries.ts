import { queryOptions } from "@tanstack/react-query";
import { api, ask } from "../../api/client";
import { type Range, windowOf } from "../search/range";
import { type DraftPolicy, requestOf } from "./draft";

/** What is counted is asked for anew each time: it costs the trace store much, and is written to the audit log. */
const ONCE = {
  staleTime: Number.POSITIVE_INFINITY,
  gcTime: 0,
  retry: false,
  refetchOnWindowFocus: false,
  refetchOnReconnect: false,
} as const;

export type PreviewAsked = {
  readonly role: string;
  /** `null` stands for the role being deleted. */
  readonly draft: readonly DraftPolicy[] | null;
  readonly range: Range;
  /** How long the trace store may count. */
  readonly seconds: number;
};

/** Which traces somebody gains and loses by a draft of a role. */
export const previewQuery = ({ role, draft, range, seconds }: PreviewAsked) => {
  const policies = draft === null ? null : requestOf(draft).policies;
  return queryOptions({
    queryKey: ["policy-preview", role, policies, range, seconds],
    queryFn: ({ signal }) =>
      ask(
        api.POST("/policies/preview", {
          body: { role, policies, seconds, ...windowOf(range, new Date()) },
          signal,
        }),
      ),
    ...ONCE,
  });
};

export type OvershareAsked = {
  readonly role: string;
  /** `null` stands for the policies that are stored. */
  readonly draft: readonly DraftPolicy[] | null;
  /** The field or column whose values are counted; `null` for the service. */
  readonly by: string | null;
  readonly range: Range;
  readonly seconds: number;
};

/** Which values become visible only because traces are shown whole. */
export const overshareQuery = ({ role, draft, by, range, seconds }: OvershareAsked) => {
  const policies = draft === null ? null : requestOf(draft).policies;
  return queryOptions({
    queryKey: ["policy-overshare", role, policies, by, range, seconds],
    queryFn: ({ signal }) =>
      ask(
        api.POST("/policies/overshare", {
          body: {
            role,
            seconds,
            ...windowOf(range, new Date()),
            ...(policies === null ? {} : { policies }),
            ...(by === null ? {} : { by }),
          },
          signal,
        }),
      ),
    ...ONCE,
  });
};
