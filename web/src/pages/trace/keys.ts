/** Actions of keys on a trace page. */
export type KeyAction =
  | { readonly type: "move"; readonly rows: number }
  | { readonly type: "page"; readonly pages: number }
  | { readonly type: "edge"; readonly end: boolean }
  | { readonly type: "sideways"; readonly right: boolean }
  | { readonly type: "pan"; readonly right: boolean }
  | { readonly type: "open" | "close" | "why" }
  | { readonly type: "error" | "match"; readonly forward: boolean }
  | { readonly type: "level"; readonly collapse: boolean }
  | { readonly type: "zoom"; readonly factor: number };

type Key = Pick<KeyboardEvent, "key" | "shiftKey" | "ctrlKey" | "altKey" | "metaKey">;

const KEY_ACTIONS: Readonly<Record<string, KeyAction>> = {
  ArrowDown: { type: "move", rows: 1 },
  j: { type: "move", rows: 1 },
  ArrowUp: { type: "move", rows: -1 },
  k: { type: "move", rows: -1 },
  ArrowLeft: { type: "sideways", right: false },
  ArrowRight: { type: "sideways", right: true },
  "shift+ArrowLeft": { type: "pan", right: false },
  "shift+ArrowRight": { type: "pan", right: true },
  Home: { type: "edge", end: false },
  End: { type: "edge", end: true },
  PageUp: { type: "page", pages: -1 },
  PageDown: { type: "page", pages: 1 },
  Enter: { type: "open" },
  Escape: { type: "close" },
  w: { type: "why" },
  e: { type: "error", forward: true },
  E: { type: "error", forward: false },
  n: { type: "match", forward: true },
  N: { type: "match", forward: false },
  c: { type: "level", collapse: true },
  x: { type: "level", collapse: false },
  "+": { type: "zoom", factor: 0.5 },
  "=": { type: "zoom", factor: 0.5 },
  "-": { type: "zoom", factor: 2 },
  "−": { type: "zoom", factor: 2 },
  "0": { type: "zoom", factor: Number.POSITIVE_INFINITY },
};

/** Returns the action of a key, or `null` if the browser handles it. */
export function actionOf(event: Key): KeyAction | null {
  if (event.ctrlKey || event.altKey || event.metaKey) {
    return null;
  }
  const keyName = event.key.length > 1 && event.shiftKey ? `shift+${event.key}` : event.key;
  return KEY_ACTIONS[keyName] ?? null;
}

/** Keys that scroll, activate or move elsewhere act on the spans only while they have the focus. */
export function needsFocus(action: KeyAction): boolean {
  return ["move", "page", "edge", "sideways", "pan", "open"].includes(action.type);
}
