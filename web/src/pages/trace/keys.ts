/** Actions of keys on a trace page. */
export type KeyAction =
  | { readonly do: "move"; readonly rows: number }
  | { readonly do: "page"; readonly pages: number }
  | { readonly do: "edge"; readonly end: boolean }
  | { readonly do: "sideways"; readonly right: boolean }
  | { readonly do: "pan"; readonly right: boolean }
  | { readonly do: "open" | "close" | "why" }
  | { readonly do: "error" | "match"; readonly forward: boolean }
  | { readonly do: "level"; readonly collapse: boolean }
  | { readonly do: "zoom"; readonly factor: number };

type Key = Pick<KeyboardEvent, "key" | "shiftKey" | "ctrlKey" | "altKey" | "metaKey">;

const ACTIONS: Readonly<Record<string, KeyAction>> = {
  ArrowDown: { do: "move", rows: 1 },
  j: { do: "move", rows: 1 },
  ArrowUp: { do: "move", rows: -1 },
  k: { do: "move", rows: -1 },
  ArrowLeft: { do: "sideways", right: false },
  ArrowRight: { do: "sideways", right: true },
  "shift+ArrowLeft": { do: "pan", right: false },
  "shift+ArrowRight": { do: "pan", right: true },
  Home: { do: "edge", end: false },
  End: { do: "edge", end: true },
  PageUp: { do: "page", pages: -1 },
  PageDown: { do: "page", pages: 1 },
  Enter: { do: "open" },
  Escape: { do: "close" },
  w: { do: "why" },
  e: { do: "error", forward: true },
  E: { do: "error", forward: false },
  n: { do: "match", forward: true },
  N: { do: "match", forward: false },
  c: { do: "level", collapse: true },
  x: { do: "level", collapse: false },
  "+": { do: "zoom", factor: 0.5 },
  "=": { do: "zoom", factor: 0.5 },
  "-": { do: "zoom", factor: 2 },
  "−": { do: "zoom", factor: 2 },
  "0": { do: "zoom", factor: Number.POSITIVE_INFINITY },
};

/** Returns the action of a key, or `null` if the browser handles it. */
export function actionOf(event: Key): KeyAction | null {
  if (event.ctrlKey || event.altKey || event.metaKey) {
    return null;
  }
  const named = event.key.length > 1 && event.shiftKey ? `shift+${event.key}` : event.key;
  return ACTIONS[named] ?? null;
}

/** Keys that scroll, activate or move elsewhere act on the spans only while they have the focus. */
export function needsFocus(action: KeyAction): boolean {
  return ["move", "page", "edge", "sideways", "pan", "open"].includes(action.do);
}
