import type { Api, WithEtag } from "../../api/client";
import { type AttributeRow, attributesOf, nameErrors, rowsOf } from "./attributes";
import { type Settings, userChangeOf } from "./merge";

type UserWithEtag = WithEtag<Api["User"]>;

/** A user's edited roles and attributes, which are those that administrators assign, with the version that they are based on. */
export type UserDraft = {
  readonly base: UserWithEtag;
  readonly roles: string[];
  readonly rows: AttributeRow[];
};

export const settingsOf = (draft: UserDraft): Settings => ({
  roles: draft.roles,
  attributes: attributesOf(draft.rows),
});

export function draftOf(stored: UserWithEtag): UserDraft {
  const { roles, attributes } = stored.data.assigned;
  return { base: stored, roles: [...roles], rows: rowsOf(attributes) };
}

/** Whether a save would change anything. */
export function hasChanges(draft: UserDraft): boolean {
  return Object.keys(userChangeOf(draft.base.data.assigned, settingsOf(draft))).length > 0;
}

/** Whether there are unsaved changes, including invalid input. */
export function hasInput(draft: UserDraft): boolean {
  return hasChanges(draft) || nameErrors(draft.rows).size > 0;
}

/** The draft after an earlier state of it was saved: the changes made during the save. */
export function draftAfterSave(current: UserDraft | null, saved: UserWithEtag): UserDraft | null {
  const remaining = current === null ? null : { ...current, base: saved };
  return remaining !== null && hasInput(remaining) ? remaining : null;
}
