import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useRef, useState } from "react";
import type { TraceUrl } from "./url";

/** Changes of URL parameters; `undefined` removes a parameter. */
export type UrlChange = { [Part in keyof TraceUrl]: TraceUrl[Part] | undefined };

const PARTS = ["span", "view", "zoom", "find", "why", "user"] as const satisfies readonly (keyof TraceUrl)[];

const same = (one: TraceUrl, other: TraceUrl) => PARTS.every((part) => one[part] === other[part]);

/** The page's state in the URL. A change takes effect at once, but is written to the URL with a delay, so that a held key does
 * not fill the history. */
export function useTraceUrl(): [TraceUrl, (change: UrlChange) => void] {
  const search = useSearch({ from: "/app/trace/$traceId" });
  const navigate = useNavigate({ from: "/trace/$traceId" });
  const [url, setUrl] = useState<TraceUrl>(search);
  const written = useRef<TraceUrl>(search);

  useEffect(() => {
    if (!same(search, written.current)) {
      written.current = search;
      setUrl(search);
    }
  }, [search]);

  useEffect(() => {
    if (same(url, written.current)) {
      return;
    }
    const timer = setTimeout(() => {
      written.current = url;
      void navigate({ search: url, replace: true, resetScroll: false });
    }, 200);
    return () => clearTimeout(timer);
  }, [url, navigate]);

  const change = useCallback((part: UrlChange) => {
    setUrl((before) => {
      const merged: Record<string, string | undefined> = { ...before, ...part };
      for (const name of Object.keys(merged)) {
        if (merged[name] === undefined || merged[name] === "") {
          delete merged[name];
        }
      }
      return same(merged as TraceUrl, before) ? before : (merged as TraceUrl);
    });
  }, []);
  return [url, change];
}
