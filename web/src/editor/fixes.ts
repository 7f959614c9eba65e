import type { Api } from "../api/client";
import { visible } from "../lib/visible";
import { type Range, rangeOf } from "./place";

/** A replacement for an expression. */
export type Fix = { readonly label: string; readonly text: string };

const QUOTED = /`([^`]+)`/g;

/** Extracts possible replacements from a hint: for the underlined part or, after “together”, for the whole text.
 *
 * Hints are written for people, so that these are guesses. They may only be offered if validation confirms that they are
 * better. */
export function candidates(text: string, remark: Api["Diagnostic"]): Fix[] {
  const hint = remark.hint ?? "";
  const range = rangeOf(text, remark);
  const found: Fix[] = [];
  for (const match of hint.matchAll(QUOTED)) {
    const replacement = match[1] ?? "";
    const whole = /together: $/.test(hint.slice(0, match.index));
    // A hint with a placeholder is not a replacement.
    if (replacement.includes("…") || (!whole && range.from === range.to)) {
      continue;
    }
    const fixed = whole ? replacement : replaced(text, range, replacement);
    if (fixed !== text && !found.some((fix) => fix.text === fixed)) {
      found.push({ label: `${whole ? "Write" : "Replace with"} ${shortened(replacement)}`, text: fixed });
    }
  }
  return found;
}

export function replaced(text: string, { from, to }: Range, replacement: string): string {
  return text.slice(0, from) + replacement + text.slice(to);
}

/** Whether the changed text has fewer errors, or as many errors and fewer warnings. */
export function better(after: Api["CheckResult"], before: Api["CheckResult"]): boolean {
  return after.errors.length === before.errors.length
    ? after.warnings.length < before.warnings.length
    : after.errors.length < before.errors.length;
}

const MOST = 60;

function shortened(text: string): string {
  return visible(text.length > MOST ? `${text.slice(0, MOST)}…` : text);
}
