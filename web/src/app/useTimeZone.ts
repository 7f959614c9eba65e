import { useSyncExternalStore } from "react";
import type { TimeZone } from "../lib/time";

const STORAGE_KEY = "tracewarden-zone";
const listeners = new Set<() => void>();

function readStored(): string | null {
  try {
    return localStorage.getItem(STORAGE_KEY);
  } catch {
    return null;
  }
}

/** Stored as JSON. */
let zone: TimeZone = readStored() === '"utc"' ? "utc" : "local";

function applyZone(next: TimeZone): void {
  zone = next;
  for (const listener of listeners) {
    listener();
  }
}

function storeZone(next: TimeZone): void {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(next));
  } catch {
    // Without storage, the setting lasts until the page is closed.
  }
  applyZone(next);
}

// The setting was changed in another window of the same browser.
window.addEventListener("storage", (event) => {
  if (event.key === STORAGE_KEY || event.key === null) {
    applyZone(readStored() === '"utc"' ? "utc" : "local");
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
export function useTimeZone(): [TimeZone, (zone: TimeZone) => void] {
  return [useSyncExternalStore(subscribe, () => zone), storeZone];
}
