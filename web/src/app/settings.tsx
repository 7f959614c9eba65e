import { useSyncExternalStore } from "react";
import type { Zone } from "../lib/time";

const KEY = "tracewarden-zone";
const listeners = new Set<() => void>();

function read(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** Kept as JSON. */
let zone: Zone = read() === '"utc"' ? "utc" : "local";

function take(next: Zone): void {
  zone = next;
  for (const listener of listeners) {
    listener();
  }
}

function set(next: Zone): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    // A browser that keeps nothing shows it until the page is left.
  }
  take(next);
}

// Another window of the same browser.
window.addEventListener("storage", (event) => {
  if (event.key === KEY || event.key === null) {
    take(read() === '"utc"' ? "utc" : "local");
  }
});

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Whether times are shown in the reader's zone or in UTC. Kept in this browser.
 *
 * One value for the whole page: a hook that reads and announces it on its own would, in thousands of rows, each tell all others. */
export function useZone(): [Zone, (zone: Zone) => void] {
  return [useSyncExternalStore(subscribe, () => zone), set];
}
