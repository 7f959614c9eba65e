import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useRef, useState } from "react";
import { omitUndefined } from "../../lib/urlParams";
import { useIsLeaving } from "../../lib/useIsLeaving";
import type { TraceUrl } from "./url";

/** Changes of URL parameters; `undefined` removes a parameter. */
export type UrlChange = { [Part in keyof TraceUrl]: TraceUrl[Part] | undefined };

const PARAMS = ["span", "view", "zoom", "find", "why", "user"] as const satisfies readonly (keyof TraceUrl)[];

const sameParams = (a: TraceUrl, b: TraceUrl) => PARAMS.every((param) => a[param] === b[param]);

/** The page's state in the URL. A change takes effect at once, but is written to the URL with a delay, so that a held key does
 * not fill the history. */
export function useTraceUrl(): [TraceUrl, (change: UrlChange) => void] {
  const search = useSearch({ from: "/app/trace/$traceId" });
  const navigate = useNavigate({ from: "/trace/$traceId" });
  const isLeaving = useIsLeaving();
  const [url, setUrl] = useState<TraceUrl>(search);
  const lastWritten = useRef<TraceUrl>(search);

  useEffect(() => {
    if (!sameParams(search, lastWritten.current)) {
      lastWritten.current = search;
      setUrl(search);
    }
  }, [search]);

  useEffect(() => {
    if (sameParams(url, lastWritten.current)) {
      return;
    }
    const timer = setTimeout(() => {
      if (isLeaving()) {
        return;
      }
      lastWritten.current = url;
      void navigate({ search: url, replace: true, resetScroll: false });
    }, 200);
    return () => clearTimeout(timer);
  }, [url, navigate, isLeaving]);

  const change = useCallback((changes: UrlChange) => {
    setUrl((previous) => {
      const merged = omitUndefined({ ...previous, ...changes });
      return sameParams(merged, previous) ? previous : merged;
    });
  }, []);
  return [url, change];
}
