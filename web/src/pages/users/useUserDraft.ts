import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ApiError, api, askWithTag } from "../../api/client";
import { queryClient } from "../../api/queries";
import { rowsOf } from "./attributes";
import { afterSaving, type Draft, draftOf, isChange, isTouched, settingsOf } from "./draft";
import { changeOf, describeChange, mergeChanges } from "./merge";
import { userChanged, userQuery } from "./queries";

/** Draft of a user's roles and attributes. Concurrent changes by others never discard the input. */
export function useUserDraft(username: string) {
  const user = useQuery(userQuery(username));
  const [draft, setDraft] = useState<Draft | null>(null);
  const stored = user.data;

  const save = useMutation({
    mutationFn: (draft: Draft) =>
      askWithTag(
        api.PATCH("/users/{username}", {
          params: {
            path: { username },
            ...(draft.base.tag === null ? {} : { header: { "If-Match": draft.base.tag } }),
          },
          body: changeOf(draft.base.data, settingsOf(draft)),
        }),
      ),
    onSuccess: (saved) => {
      queryClient.setQueryData(userQuery(username).queryKey, saved);
      setDraft((now) => afterSaving(now, saved));
      void userChanged(username);
    },
    onError: (error) => {
      if (error instanceof ApiError && error.status === 412) {
        void userChanged(username);
      }
    },
  });

  // Created once per response, so that its rows keep their identity.
  const fresh = useMemo(() => (stored === undefined ? null : draftOf(stored)), [stored]);
  const dirty = draft !== null && isChange(draft);
  const touched = draft !== null && isTouched(draft);
  const shown = draft !== null && (touched || draft.base.tag === stored?.tag) ? draft : fresh;
  const theirs = dirty && stored !== undefined && stored.tag !== draft.base.tag ? stored : null;
  const edit = (update: (shown: Draft) => Partial<Pick<Draft, "roles" | "rows">>) =>
    setDraft((latest) => {
      // One key press can change a row twice: the second change is based on the first.
      const before = latest === draft ? shown : (latest ?? shown);
      return before === null ? latest : { ...before, ...update(before) };
    });
  return {
    user,
    shown,
    /** Whether there are unsaved changes, including invalid input. */
    touched,
    dirty,
    edit,
    save: () => draft !== null && save.mutate(draft),
    saving: save.isPending,
    saved: save.isSuccess && draft === null,
    error: save.error instanceof ApiError && save.error.status === 412 ? null : save.error,
    discard: () => {
      setDraft(null);
      save.reset();
    },
    /** Changes that another user has stored since the draft was started. */
    conflict:
      theirs === null || draft === null
        ? null
        : {
            changes: describeChange(draft.base.data, theirs.data),
            both: mergeChanges(draft.base.data, settingsOf(draft), theirs.data).both,
            keep: () => {
              const { settings } = mergeChanges(draft.base.data, settingsOf(draft), theirs.data);
              setDraft({ base: theirs, roles: [...settings.roles], rows: rowsOf(settings.attributes) });
              save.reset();
            },
          },
  };
}
