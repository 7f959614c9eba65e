import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { type Range, windowOf } from "../search/range";
import { type DraftPolicy, requestOf } from "./draft";

/** Counts are requested anew each time and never automatically: they are expensive in ClickHouse, and audited. */
const RUN_ONCE = {
  staleTime: Number.POSITIVE_INFINITY,
  gcTime: 0,
  retry: false,
  refetchOnWindowFocus: false,
  refetchOnReconnect: false,
} as const;

export type PreviewRequest = {
  readonly role: string;
  /** `null` means that the role is deleted. */
  readonly draft: readonly DraftPolicy[] | null;
  readonly range: Range;
  /** Time limit for counting in ClickHouse. */
  readonly seconds: number;
};

/** Traces that users gain and lose through a draft of a role. */
export const previewQuery = ({ role, draft, range, seconds }: PreviewRequest) => {
  const policies = draft === null ? null : requestOf(draft).policies;
  return queryOptions({
    queryKey: ["policy-preview", role, policies, range, seconds],
    queryFn: ({ signal }) =>
      unwrap(
        api.POST("/policies/preview", {
          body: { role, policies, seconds, ...windowOf(range, new Date()) },
          signal,
        }),
      ),
    ...RUN_ONCE,
  });
};

export type CollateralRequest = {
  readonly role: string;
  /** `null` means the stored policies. */
  readonly draft: readonly DraftPolicy[] | null;
  /** The field or column whose values are counted, or `null` for the service. */
  readonly by: string | null;
  readonly range: Range;
  readonly seconds: number;
};

/** Values that become visible only because traces are shown whole. */
export const collateralAccessQuery = ({ role, draft, by, range, seconds }: CollateralRequest) => {
  const policies = draft === null ? null : requestOf(draft).policies;
  return queryOptions({
    queryKey: ["collateral-access", role, policies, by, range, seconds],
    queryFn: ({ signal }) =>
      unwrap(
        api.POST("/policies/collateral-access", {
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
    ...RUN_ONCE,
  });
};
