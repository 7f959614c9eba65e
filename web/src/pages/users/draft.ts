import type { Api } from "../../api/client";
import { type AttributeRow, attributesOf, problemsOf, rowsOf } from "./attributes";
import { changeOf, type Settings } from "./merge";

export type Tagged = { data: Api["User"]; tag: string | null };

/** A user's edited roles and attributes, with the version that they are based on. */
export type Draft = { readonly base: Tagged; readonly roles: string[]; readonly rows: AttributeRow[] };

export const settingsOf = (draft: Draft): Settings => ({
  roles: draft.roles,
  attributes: attributesOf(draft.rows),
});

export function draftOf(stored: Tagged): Draft {
  return { base: stored, roles: [...stored.data.roles], rows: rowsOf(stored.data.attributes) };
}

/** Whether a save would change anything. */
export function isChange(draft: Draft): boolean {
  return Object.keys(changeOf(draft.base.data, settingsOf(draft))).length > 0;
}

/** Whether there are unsaved changes, including invalid input. */
export function isTouched(draft: Draft): boolean {
  return isChange(draft) || problemsOf(draft.rows).size > 0;
}

/** The draft after an earlier state of it was saved: the changes made during the save. */
export function afterSaving(now: Draft | null, saved: Tagged): Draft | null {
  const left = now === null ? null : { ...now, base: saved };
  return left !== null && isTouched(left) ? left : null;
}
