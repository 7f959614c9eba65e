import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { RUN_ONCE } from "../../api/queries";
import { type Range, windowOf } from "../search/range";
import { type DraftPolicy, requestOf } from "./draft";

/** Each count is audited. It is requested anew each time. */
const COUNT_OPTIONS = { ...RUN_ONCE, gcTime: 0 };

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
    ...COUNT_OPTIONS,
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
    ...COUNT_OPTIONS,
  });
};
