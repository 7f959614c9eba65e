import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { type Api, api, hasStatus, unwrapWithEtag } from "../../api/client";
import {
  applyChange,
  type Candidate,
  type Changes,
  currentMark,
  diffFields,
  fieldsByKey,
  type Mark,
  type MarkedField,
  marksToSend,
  remainingChanges,
} from "./fields";
import { invalidateSource, schemaQuery } from "./queries";
import { parseRejection } from "./rejection";

/** The changes of a save, with the fields that they are based on. */
type SaveRequest = { changes: Changes; before: ReadonlyMap<string, MarkedField> };

export type FieldChanges = ReturnType<typeof useFieldChanges>;

/** Unsaved changes of fields, which are saved together.
 *
 * Only differences are kept, not the whole set, so that they also apply to fields that another user has changed in the
 * meantime. */
export function useFieldChanges(schema: { model: Api["AccessModel"]; etag: string } | undefined) {
  const client = useQueryClient();
  const [changes, setChanges] = useState<Changes>({});
  const marked = schema?.model.fields;
  const stored = useMemo(() => fieldsByKey(marked ?? []), [marked]);
  const diff = useMemo(() => diffFields(marked ?? [], changes), [marked, changes]);

  const save = useMutation({
    mutationFn: async ({ changes }: SaveRequest) => {
      const fields = marksToSend(marked ?? [], changes);
      try {
        const { data, etag } = await unwrapWithEtag(
          api.PUT("/schema/fields", {
            body: { fields },
            params: { header: { "If-Match": schema?.etag ?? "" } },
          }),
        );
        return { model: data, etag: etag ?? "*" };
      } catch (error) {
        throw new SaveRejectedError(error, fields);
      }
    },
    onSuccess: async (saved, request) => {
      client.setQueryData(schemaQuery.queryKey, saved);
      // Saving can take minutes, and the user can change fields meanwhile.
      setChanges((current) => remainingChanges(request.changes, current, request.before));
      await invalidateSource();
    },
    onError: (error) => {
      if (hasStatus(error.cause, 412)) {
        void client.invalidateQueries({ queryKey: schemaQuery.queryKey, exact: true });
      }
    },
  });

  const rejected = save.error instanceof SaveRejectedError ? save.error : null;
  const rejection = useMemo(
    () => (rejected === null ? null : parseRejection(rejected.cause, rejected.sentMarks, diff)),
    [rejected, diff],
  );

  const putMarks = (marks: { candidate: Pick<Candidate, "key" | "map" | "name">; mark: Mark }[]) => {
    const addedChanges = marks.map(
      ({ candidate: { key, map, name }, mark }) => [key, { map, name, mark }] as const,
    );
    setChanges((before) => ({ ...before, ...Object.fromEntries(addedChanges) }));
  };

  // The callbacks keep their identity, so that a change renders one row and not all of them.
  const change = useCallback(
    (candidate: Candidate, change: Partial<Mark>) =>
      setChanges((before) => {
        const { key, map, name } = candidate;
        const mark = applyChange(map, name, currentMark(candidate, stored, before), change);
        return { ...before, [key]: { map, name, mark } };
      }),
    [stored],
  );
  const undo = useCallback(
    (key: string) =>
      setChanges((before) => Object.fromEntries(Object.entries(before).filter(([other]) => other !== key))),
    [],
  );

  return {
    changes,
    stored,
    diff,
    rejection,
    /** The error of the save; `rejection` contains the errors of individual fields. */
    error: rejected === null ? save.error : rejected.cause,
    isSaving: save.isPending,
    markOf: (candidate: Candidate) => currentMark(candidate, stored, changes),
    change,
    putMarks,
    undo,
    discard: () => {
      save.reset();
      setChanges({});
    },
    save: (onSaved?: () => void) =>
      save.mutate({ changes, before: stored }, onSaved === undefined ? {} : { onSuccess: onSaved }),
  };
}

/** A rejected save with its request, which the pointers of the errors refer to. */
class SaveRejectedError extends Error {
  constructor(
    cause: unknown,
    readonly sentMarks: Api["FieldMark"][],
  ) {
    super("the save was rejected", { cause });
  }
}
