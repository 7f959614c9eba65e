import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, hasStatus, ifMatch, unwrapWithEtag } from "../../api/client";
import { queryClient } from "../../api/queries";
import { rowsOf } from "./attributes";
import { draftAfterSave, draftOf, hasChanges, hasInput, settingsOf, type UserDraft } from "./draft";
import { describeChange, mergeChanges, userChangeOf } from "./merge";
import { invalidateUser, userQuery } from "./queries";

/** Draft of a user's roles and attributes. Concurrent changes by others never discard the input. */
export function useUserDraft(username: string) {
  const user = useQuery(userQuery(username));
  const [draft, setDraft] = useState<UserDraft | null>(null);
  const stored = user.data;

  const save = useMutation({
    mutationFn: (draft: UserDraft) =>
      unwrapWithEtag(
        api.PATCH("/users/{username}", {
          params: { path: { username }, ...ifMatch(draft.base.etag) },
          body: userChangeOf(draft.base.data.assigned, settingsOf(draft)),
        }),
      ),
    onSuccess: (saved) => {
      queryClient.setQueryData(userQuery(username).queryKey, saved);
      setDraft((current) => draftAfterSave(current, saved));
      void invalidateUser(username);
    },
    onError: (error) => {
      if (hasStatus(error, 412)) {
        void invalidateUser(username);
      }
    },
  });

  // Created once per response, so that its rows keep their identity.
  const storedDraft = useMemo(() => (stored === undefined ? null : draftOf(stored)), [stored]);
  const isDirty = draft !== null && hasChanges(draft);
  const isTouched = draft !== null && hasInput(draft);
  const displayed = draft !== null && (isTouched || draft.base.etag === stored?.etag) ? draft : storedDraft;
  const theirs = isDirty && stored !== undefined && stored.etag !== draft.base.etag ? stored : null;
  const edit = (update: (displayed: UserDraft) => Partial<Pick<UserDraft, "roles" | "rows">>) =>
    setDraft((latest) => {
      // One key press can change a row twice: the second change is based on the first.
      const base = latest === draft ? displayed : (latest ?? displayed);
      return base === null ? latest : { ...base, ...update(base) };
    });
  return {
    user,
    displayed,
    /** Whether there are unsaved changes, including invalid input. */
    isTouched,
    isDirty,
    edit,
    save: () => draft !== null && save.mutate(draft),
    saving: save.isPending,
    saved: save.isSuccess && draft === null,
    error: hasStatus(save.error, 412) ? null : save.error,
    discard: () => {
      setDraft(null);
      save.reset();
    },
    /** Changes that another user has stored since the draft was started. */
    conflict:
      theirs === null || draft === null
        ? null
        : {
            changes: describeChange(draft.base.data.assigned, theirs.data.assigned),
            conflictingAttributes: mergeChanges(
              draft.base.data.assigned,
              settingsOf(draft),
              theirs.data.assigned,
            ).conflictingAttributes,
            keepMine: () => {
              const { settings } = mergeChanges(
                draft.base.data.assigned,
                settingsOf(draft),
                theirs.data.assigned,
              );
              setDraft({ base: theirs, roles: [...settings.roles], rows: rowsOf(settings.attributes) });
              save.reset();
            },
          },
  };
}
