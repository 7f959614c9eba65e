import type { Api } from "../api/client";
import { sanitize, truncate } from "../lib/sanitize";
import { type Range, rangeOf, type SourcePosition } from "./position";

/** A replacement for an expression. */
export type Fix = { readonly label: string; readonly text: string };

/** Whether a diagnostic is about a field that policies cannot name, and that is no misspelling of one that they can name. */
export function isUnmarkedField({ code, hint = "" }: { code: string; hint?: string | undefined }): boolean {
  return code === "unmarked_field" && !hint.startsWith("did you mean");
}

const QUOTED = /`([^`]+)`/g;

/** Extracts possible replacements from a hint: for the underlined part or, after “together”, for the whole text.
 *
 * Hints are written for people, so that these are guesses. They may only be offered if validation confirms that they are
 * better. */
export function fixCandidates(text: string, diagnostic: Api["Diagnostic"]): Fix[] {
  const hint = diagnostic.hint ?? "";
  // It lists fields that policies can name, none of which needs to mean the same.
  if (isUnmarkedField(diagnostic)) {
    return [];
  }
  const range = rangeOf(text, diagnostic);
  const fixes: Fix[] = [];
  for (const match of hint.matchAll(QUOTED)) {
    const replacement = match[1] ?? "";
    const replacesAll = /together: $/.test(hint.slice(0, match.index));
    // A hint with a placeholder is not a replacement.
    if (replacement.includes("…") || (!replacesAll && range.from === range.to)) {
      continue;
    }
    const newText = replacesAll ? replacement : replaceRange(text, range, replacement);
    if (newText !== text && !fixes.some((fix) => fix.text === newText)) {
      fixes.push({
        label: `${replacesAll ? "Write" : "Replace with"} ${sanitize(truncate(replacement, MAX_LABEL_LENGTH))}`,
        text: newText,
      });
    }
  }
  return fixes;
}

/** The name of the field that a diagnostic underlines, without its map: `region` in `SpanAttributes["region"]`. */
export function underlinedName(text: string, diagnostic: SourcePosition): string | null {
  const { from, to } = rangeOf(text, diagnostic);
  const part = text.slice(from, to);
  const [, key] = /\[\s*["']([^"'\\]+)["']\s*\]\s*$/.exec(part) ?? [];
  const name = key ?? part.trim();
  return name === "" || name.length > 200 ? null : name;
}

export function replaceRange(text: string, { from, to }: Range, replacement: string): string {
  return text.slice(0, from) + replacement + text.slice(to);
}

/** Whether the changed text has fewer errors, or as many errors and fewer warnings. */
export function isImprovement(after: Api["CheckResult"], before: Api["CheckResult"]): boolean {
  return after.errors.length === before.errors.length
    ? after.warnings.length < before.warnings.length
    : after.errors.length < before.errors.length;
}

const MAX_LABEL_LENGTH = 60;
