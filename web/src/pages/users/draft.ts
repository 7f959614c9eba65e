import type { Api } from "../../api/client";
import { type AttributeRow, attributesOf, problemsOf, rowsOf } from "./attributes";
import { changeOf, type Settings } from "./merge";

export type Tagged = { data: Api["User"]; tag: string | null };

/** A user's roles and attributes as they are edited, with the version that they are a change of. */
export type Draft = { readonly base: Tagged; readonly roles: string[]; readonly rows: AttributeRow[] };

export const settingsOf = (draft: Draft): Settings => ({
  roles: draft.roles,
  attributes: attributesOf(draft.rows),
});

export function draftOf(stored: Tagged): Draft {
  return { base: stored, roles: [...stored.data.roles], rows: rowsOf(stored.data.attributes) };
}

/** Whether saving would change something. */
export function isChange(draft: Draft): boolean {
  return Object.keys(changeOf(draft.base.data, settingsOf(draft))).length > 0;
}

/** Whether there is something to save, or to lose. */
export function isTouched(draft: Draft): boolean {
  return isChange(draft) || problemsOf(draft.rows).size > 0;
}

/** What is left of a draft once a former state of it is stored: what was changed while it was being saved. */
export function afterSaving(now: Draft | null, saved: Tagged): Draft | null {
  const left = now === null ? null : { ...now, base: saved };
  return left !== null && isTouched(left) ? left : null;
}
