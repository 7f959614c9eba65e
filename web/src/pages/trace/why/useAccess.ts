import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Api } from "../../../api/client";
import { useMe } from "../../../app/useMe";
import { visible } from "../../../lib/visible";
import type { Trace } from "../../../trace/model";
import type { TraceState } from "../useTraceState";
import { openingSpans } from "./explanation";
import { explainQuery } from "./queries";

/** Matching spans that grant access to the explained user, with a description. */
export type Opening = {
  readonly spans: ReadonlyMap<number, readonly Api["ExplainedPolicy"][]>;
  readonly said: string;
};

/** Explains why the trace is visible. It is requested after the trace is loaded, so that the trace never waits for it, and a
 * failure does not affect the trace. */
export function useAccess(
  trace: Trace,
  { why, url }: Pick<TraceState, "why" | "url">,
): { own: Api["AccessExplanation"] | undefined; opening: Opening } {
  const me = useMe();
  const own = useQuery(explainQuery(trace.id, null)).data;
  const another = why === "user" && url.user !== undefined && me.is_admin ? url.user : null;
  const other = useQuery({ ...explainQuery(trace.id, another), enabled: another !== null }).data;
  const opening = useMemo(
    () => ({
      spans: openingSpans(trace, another === null ? own : other),
      said:
        another === null ? "Grants access to this trace" : `Grants ${visible(another)} access to this trace`,
    }),
    [trace, own, other, another],
  );
  return { own, opening };
}
