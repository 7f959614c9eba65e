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

/** The changes that a save sends, and what they are changes of. */
type Sent = { changes: Changes; before: ReadonlyMap<string, MarkedField> };

export type FieldChanges = ReturnType<typeof useFieldChanges>;

/** Changes of the marked fields that are not saved yet, and saving them all as one.
 *
 * Only what differs is kept, not the whole set: when somebody else changes fields in the meantime, it applies to theirs. */
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
      // Saving can take minutes, and fields can be ticked meanwhile.
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

  // These stay the same between changes, so that a tick draws one row anew and not all of them.
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
    /** What was refused, for people; already told at the fields where `refusal` says so. */
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

/** A refusal, with what was sent: its pointers count in that. */
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
