import { useSyncExternalStore } from "react";
import { connectSession, type SessionEnd } from "../api/client";
import { meQuery, queryClient } from "../api/queries";

/** Why the session has ended, and the requests that wait for the user to sign in again. */
let end: SessionEnd | null = null;
let waiting: ((isResumed: boolean) => void)[] = [];
let resumes = 0;
const listeners = new Set<() => void>();

function setEnd(next: SessionEnd | null): void {
  end = next;
  for (const listener of listeners) {
    listener();
  }
}

/** Connects requests with the user whose page this is. */
export function watchSession(): void {
  const user = () => queryClient.getQueryData(meQuery.queryKey) ?? undefined;
  connectSession({
    userId: () => user()?.id,
    resumes: () => resumes,
    resumed: (next) => {
      // The user has signed out while the request was sent.
      if (user() === undefined) {
        return Promise.resolve(false);
      }
      setEnd(next);
      return new Promise((resolve) => waiting.push(resolve));
    },
  });
  // Keys must not reach the covered page: Escape would close its dialogs, and what was typed there would be lost.
  window.addEventListener(
    "keydown",
    (event) => {
      if (end !== null && event.key !== "Tab") {
        event.stopImmediatePropagation();
      }
    },
    true,
  );
}

/** Ends the wait: the user has signed in again, or the page has no user any more. */
export function settleSession(isResumed: boolean): void {
  setEnd(null);
  resumes += isResumed ? 1 : 0;
  const settled = waiting;
  waiting = [];
  for (const resolve of settled) {
    resolve(isResumed);
  }
}

/** Why the session has ended; `null` while it lasts. */
export function useSessionEnd(): SessionEnd | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => end,
  );
}
