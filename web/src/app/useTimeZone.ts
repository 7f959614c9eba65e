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

/** Stored as JSON. */
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
    // Without storage, the setting lasts until the page is closed.
  }
  take(next);
}

// The setting was changed in another window of the same browser.
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

/** Whether times are shown in the local time zone or in UTC. The setting is stored in the browser.
 *
 * All components share one value: with separate hooks in thousands of rows, each would notify all others. */
export function useZone(): [Zone, (zone: Zone) => void] {
  return [useSyncExternalStore(subscribe, () => zone), set];
}
