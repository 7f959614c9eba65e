import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { type Api, ApiError, api, askWithTag } from "../../api/client";
import {
  byKey,
  type Candidate,
  type Changes,
  changed,
  changedSince,
  differences,
  type Mark,
  type MarkedField,
  markNow,
  marksToSend,
} from "./fields";
import { schemaQuery, sourceChanged } from "./queries";
import { refusalOf } from "./refusals";

/** The changes of a save, with the fields that they are based on. */
type Sent = { changes: Changes; before: ReadonlyMap<string, MarkedField> };

export type FieldChanges = ReturnType<typeof useFieldChanges>;

/** Unsaved changes of fields, which are saved together.
 *
 * Only differences are kept, not the whole set, so that they also apply to fields that another user has changed in the
 * meantime. */
export function useFieldChanges(schema: { model: Api["AccessModel"]; tag: string } | undefined) {
  const client = useQueryClient();
  const [changes, setChanges] = useState<Changes>({});
  const marked = schema?.model.fields;
  const stored = useMemo(() => byKey(marked ?? []), [marked]);
  const diff = useMemo(() => differences(marked ?? [], changes), [marked, changes]);

  const save = useMutation({
    mutationFn: async ({ changes }: Sent) => {
      const fields = marksToSend(marked ?? [], changes);
      try {
        const { data, tag } = await askWithTag(
          api.PUT("/schema/fields", {
            body: { fields },
            params: { header: { "If-Match": schema?.tag ?? "" } },
          }),
        );
        return { model: data, tag: tag ?? "*" };
      } catch (error) {
        throw new Refused(error, fields);
      }
    },
    onSuccess: async (saved, sent) => {
      client.setQueryData(schemaQuery.queryKey, saved);
      // Saving can take minutes, and the user can change fields meanwhile.
      setChanges((now) => changedSince(sent.changes, now, sent.before));
      await sourceChanged();
    },
    onError: (error) => {
      if (error instanceof Refused && error.isOutdated) {
        void client.invalidateQueries({ queryKey: schemaQuery.queryKey, exact: true });
      }
    },
  });

  const refused = save.error instanceof Refused ? save.error : null;
  const refusal = useMemo(
    () => (refused === null ? null : refusalOf(refused.cause, refused.sent, diff)),
    [refused, diff],
  );

  const put = (marks: { candidate: Pick<Candidate, "key" | "map" | "name">; mark: Mark }[]) => {
    const added = marks.map(({ candidate: { key, map, name }, mark }) => [key, { map, name, mark }] as const);
    setChanges((before) => ({ ...before, ...Object.fromEntries(added) }));
  };

  // The callbacks keep their identity, so that a change renders one row and not all of them.
  const change = useCallback(
    (candidate: Candidate, change: Partial<Mark>) =>
      setChanges((before) => {
        const { key, map, name } = candidate;
        const mark = changed(map, name, markNow(candidate, stored, before), change);
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
    refusal,
    /** The error of the save; `refusal` contains the errors of individual fields. */
    error: refused === null ? save.error : refused.cause,
    isSaving: save.isPending,
    markOf: (candidate: Candidate) => markNow(candidate, stored, changes),
    change,
    put,
    undo,
    discard: () => {
      save.reset();
      setChanges({});
    },
    save: (then?: () => void) =>
      save.mutate({ changes, before: stored }, then === undefined ? {} : { onSuccess: then }),
  };
}

/** A rejected save with its request, which the pointers of the errors refer to. */
class Refused extends Error {
  readonly sent: Api["FieldMark"][];

  constructor(cause: unknown, sent: Api["FieldMark"][]) {
    super("refused", { cause });
    this.sent = sent;
  }

  get isOutdated(): boolean {
    return this.cause instanceof ApiError && this.cause.status === 412;
  }
}
