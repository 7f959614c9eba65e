import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Api, hasStatus } from "../../api/client";
import { invalidate, queryClient } from "../../api/queries";
import { countOf } from "../../lib/numbers";
import { type DraftPolicy, draftOf, sameDraft } from "./draft";
import { type LoadedRole, roleQuery, saveRole, warningsKey } from "./queries";

/** The version of a role that a draft is based on. */
type Base = {
  readonly policies: readonly DraftPolicy[];
  readonly revision: number;
  readonly etag: string | null;
};

type State = { readonly base: Base; readonly draft: readonly DraftPolicy[] };

function baseOf({ data, etag }: LoadedRole): Base {
  return { policies: draftOf(data.policies, data.revision), revision: data.revision, etag };
}

const NO_WARNINGS: readonly Api["Diagnostic"][] = [];
const NO_BASE: Base = { policies: [], revision: 0, etag: null };

export type Warnings = ReadonlyMap<string, readonly Api["Diagnostic"][]>;

/** Draft of a role, with the version that it is based on and the currently stored version. */
export function useRoleDraft(name: string) {
  const role = useQuery(roleQuery(name));
  const [state, setState] = useState<State | null>(null);
  const isDeleted = hasStatus(role.error, 404);
  const isDirty = state !== null && !sameDraft(state.base.policies, state.draft);
  const stored = role.data;

  const save = useMutation({
    mutationFn: (draft: readonly DraftPolicy[]) => saveRole(name, draft, state?.base.etag ?? null),
    onSuccess: (saved, draft) => {
      setState((current) => ({
        base: { policies: draft, revision: saved.data.revision, etag: saved.etag },
        draft: current?.draft ?? draft,
      }));
      const { policies, ...rest } = saved.data;
      queryClient.setQueryData<LoadedRole>(roleQuery(name).queryKey, (previous) => ({
        data: { ...rest, policies, members: previous?.data.members ?? [] },
        etag: saved.etag,
      }));
      const count = policies.flatMap((policy) => policy.warnings).length;
      notifications.show({
        message: `${name} is saved${count === 0 ? "" : `, with ${countOf(count, "warning")}`}.`,
        color: count === 0 ? "green" : "yellow",
      });
      void invalidate(roleQuery(name).queryKey);
    },
    onError: (error) => {
      // Loads the version of the other user, to show it next to the draft.
      if (hasStatus(error, 412)) {
        void role.refetch();
      }
    },
  });

  // A new version is adopted directly if there are no local changes. The user's own running save is awaited.
  if (
    stored !== undefined &&
    !isDeleted &&
    !save.isPending &&
    (state === null || (!isDirty && stored.etag !== state.base.etag))
  ) {
    const base = baseOf(stored);
    setState({ base, draft: base.policies });
  }

  const base = state?.base;
  const warnings: Warnings = useMemo(() => {
    const storedWarnings = queryClient.getQueryData<Api["Diagnostic"][][]>(
      warningsKey(name, base?.revision ?? 0),
    );
    return new Map(
      (base?.policies ?? []).map(({ key }, index) => [key, storedWarnings?.[index] ?? NO_WARNINGS]),
    );
  }, [name, base]);

  const hasNewerVersion =
    stored !== undefined && state !== null && !save.isPending && stored.etag !== state.base.etag;
  return {
    role,
    isDeleted,
    isDirty,
    draft: state?.draft ?? null,
    base: state?.base.policies ?? [],
    warnings,
    save,
    /** A version stored by another user that conflicts with local changes. */
    theirs: hasNewerVersion && isDirty ? baseOf(stored).policies : null,
    change: (draft: readonly DraftPolicy[]) =>
      setState((current) => (current === null ? current : { ...current, draft })),
    discard: () => {
      save.reset();
      setState((current) => (current === null ? current : { ...current, draft: current.base.policies }));
    },
    keepMine: () => {
      save.reset();
      setState((current) =>
        current === null
          ? current
          : { ...current, base: isDeleted || stored === undefined ? NO_BASE : baseOf(stored) },
      );
    },
    takeTheirs: () => {
      save.reset();
      setState((current) => {
        const base = stored === undefined ? current?.base : baseOf(stored);
        return base === undefined ? current : { base, draft: base.policies };
      });
    },
  };
}
