import { writeJson } from "../../lib/json";
import { shellWord } from "../../lib/shell";
import { bodyOf } from "./run";
import type { Question } from "./state";

/** JSON in ASCII alone: text from spans must not do in a terminal what cannot be seen. */
export function plainJson(value: unknown): string {
  return writeJson(value, 0).replace(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The command that asks the same of the service. */
export function curlOf(question: Question, origin: string): string {
  return [
    `curl -sS ${shellWord(`${origin}/traces/query`)}`,
    `-H "Authorization: Bearer $TRACEWARDEN_API_KEY"`,
    "-H 'Content-Type: application/json'",
    `--data-raw ${shellWord(plainJson(bodyOf(question, null)))}`,
  ].join(" \\\n  ");
}
