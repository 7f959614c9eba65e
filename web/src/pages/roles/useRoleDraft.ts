import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Api, ApiError } from "../../api/client";
import { queryClient } from "../../api/queries";
import { type DraftPolicy, draftOf, sameDraft } from "./draft";
import { countOf } from "./listing";
import { type LoadedRole, roleQuery, saveRole, warningsKey } from "./queries";

/** The version of a role that a draft is based on. */
type Base = {
  readonly policies: readonly DraftPolicy[];
  readonly revision: number;
  readonly tag: string | null;
};

type State = { readonly base: Base; readonly draft: readonly DraftPolicy[] };

function baseOf({ data, tag }: LoadedRole): Base {
  return { policies: draftOf(data.policies, data.revision), revision: data.revision, tag };
}

const NO_WARNINGS: readonly Api["Diagnostic"][] = [];
const NOTHING: Base = { policies: [], revision: 0, tag: null };

export type Warnings = ReadonlyMap<string, readonly Api["Diagnostic"][]>;

/** Draft of a role, with the version that it is based on and the currently stored version. */
export function useRoleDraft(name: string) {
  const role = useQuery(roleQuery(name));
  const [state, setState] = useState<State | null>(null);
  const gone = role.error instanceof ApiError && role.error.status === 404;
  const dirty = state !== null && !sameDraft(state.base.policies, state.draft);
  const stored = role.data;

  const save = useMutation({
    mutationFn: (draft: readonly DraftPolicy[]) => saveRole(name, draft, state?.base.tag ?? null),
    onSuccess: (saved, draft) => {
      setState((now) => ({
        base: { policies: draft, revision: saved.data.revision, tag: saved.tag },
        draft: now?.draft ?? draft,
      }));
      const { policies, ...rest } = saved.data;
      queryClient.setQueryData<LoadedRole>(roleQuery(name).queryKey, (before) => ({
        data: { ...rest, policies, members: before?.data.members ?? [] },
        tag: saved.tag,
      }));
      const count = policies.flatMap((policy) => policy.warnings).length;
      notifications.show({
        message: `${name} is saved${count === 0 ? "" : `, with ${countOf(count, "warning", "warnings")}`}.`,
        color: count === 0 ? "green" : "yellow",
      });
      void queryClient.invalidateQueries({ queryKey: roleQuery(name).queryKey });
    },
    onError: (error) => {
      // Loads the version of the other user, to show it next to the draft.
      if (error instanceof ApiError && error.status === 412) {
        void role.refetch();
      }
    },
  });

  // A new version is adopted directly if there are no local changes. The user's own running save is awaited.
  if (
    stored !== undefined &&
    !gone &&
    !save.isPending &&
    (state === null || (!dirty && stored.tag !== state.base.tag))
  ) {
    const base = baseOf(stored);
    setState({ base, draft: base.policies });
  }

  const base = state?.base;
  const warnings: Warnings = useMemo(() => {
    const told = queryClient.getQueryData<Api["Diagnostic"][][]>(warningsKey(name, base?.revision ?? 0));
    return new Map((base?.policies ?? []).map(({ key }, index) => [key, told?.[index] ?? NO_WARNINGS]));
  }, [name, base]);

  const changed = stored !== undefined && state !== null && !save.isPending && stored.tag !== state.base.tag;
  return {
    role,
    gone,
    dirty,
    draft: state?.draft ?? null,
    base: state?.base.policies ?? [],
    warnings,
    save,
    /** A version stored by another user that conflicts with local changes. */
    theirs: changed && dirty ? baseOf(stored).policies : null,
    change: (draft: readonly DraftPolicy[]) => setState((now) => (now === null ? now : { ...now, draft })),
    discard: () => {
      save.reset();
      setState((now) => (now === null ? now : { ...now, draft: now.base.policies }));
    },
    keepMine: () => {
      save.reset();
      setState((now) =>
        now === null ? now : { ...now, base: gone || stored === undefined ? NOTHING : baseOf(stored) },
      );
    },
    takeTheirs: () => {
      save.reset();
      setState((now) => {
        const base = stored === undefined ? now?.base : baseOf(stored);
        return base === undefined ? now : { base, draft: base.policies };
      });
    },
  };
}
