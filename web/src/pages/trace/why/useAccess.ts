import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Api } from "../../../api/client";
import { useMe } from "../../../app/useMe";
import { sanitize } from "../../../lib/sanitize";
import type { Trace } from "../../../trace/model";
import type { TraceState } from "../useTraceState";
import { findMatchingSpans } from "./explanation";
import { explainQuery } from "./queries";

/** Matching spans that grant access to the explained user, with a description. */
export type MatchingSpans = {
  readonly spans: ReadonlyMap<number, readonly Api["ExplainedPolicy"][]>;
  readonly label: string;
};

/** Explains why the trace is visible. It is requested after the trace is loaded, so that the trace never waits for it, and a
 * failure does not affect the trace. */
export function useAccess(
  trace: Trace,
  { why, url }: Pick<TraceState, "why" | "url">,
): { ownExplanation: Api["AccessExplanation"] | undefined; matchingSpans: MatchingSpans } {
  const me = useMe();
  const ownExplanation = useQuery(explainQuery(trace.id, null)).data;
  const otherUser = why === "user" && url.user !== undefined && me.is_admin ? url.user : null;
  const otherExplanation = useQuery({
    ...explainQuery(trace.id, otherUser),
    enabled: otherUser !== null,
  }).data;
  const matchingSpans = useMemo(
    () => ({
      spans: findMatchingSpans(trace, otherUser === null ? ownExplanation : otherExplanation),
      label:
        otherUser === null
          ? "Grants access to this trace"
          : `Grants ${sanitize(otherUser)} access to this trace`,
    }),
    [trace, ownExplanation, otherExplanation, otherUser],
  );
  return { ownExplanation, matchingSpans };
}
