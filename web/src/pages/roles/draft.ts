import type { Api } from "../../api/client";
import { visible } from "../../lib/visible";

/** An edited policy. Its key stays the same when it is moved or changed. */
export type DraftPolicy = {
  readonly key: string;
  readonly title: string;
  readonly description: string;
  readonly expression: string;
};

let keys = 0;

export function newPolicy(of: Partial<Omit<DraftPolicy, "key">> = {}): DraftPolicy {
  keys += 1;
  return { title: "", description: "", expression: "", ...of, key: `new ${keys}` };
}

/** The policies of a stored version as a draft. Different versions have different keys, because the position does not identify a
 * policy across versions. */
export function draftOf(policies: readonly Api["Policy"][], revision = 0): DraftPolicy[] {
  return policies.map(({ title, description, expression }, index) => ({
    key: `${revision} ${index}`,
    title,
    description: description ?? "",
    expression,
  }));
}

/** The request body of a save. */
export function requestOf(draft: readonly DraftPolicy[]): Api["PutRequest"] {
  return {
    policies: draft.map(({ title, description, expression }) => ({
      title,
      expression,
      ...(description === "" ? {} : { description }),
    })),
  };
}

export function sameText(one: DraftPolicy, other: DraftPolicy): boolean {
  return (
    one.title === other.title && one.description === other.description && one.expression === other.expression
  );
}

/** The first reason why a draft cannot be saved, or `null`. */
export function missing(draft: readonly DraftPolicy[], mayBeEmpty: boolean): string | null {
  if (draft.length === 0) {
    return mayBeEmpty ? null : "A role needs a policy. To remove all access, delete the role.";
  }
  for (const [index, policy] of draft.entries()) {
    const lacks =
      policy.title.trim() === "" ? "a title" : policy.expression.trim() === "" ? "an expression" : null;
    if (lacks !== null) {
      return `Policy ${index + 1} needs ${lacks}.`;
    }
  }
  return null;
}

/** Whether saving would change nothing. */
export function sameDraft(one: readonly DraftPolicy[], other: readonly DraftPolicy[]): boolean {
  return (
    one.length === other.length &&
    one.every((policy, index) => {
      const opposite = other[index];
      return opposite !== undefined && sameText(policy, opposite);
    })
  );
}

export function moved(draft: readonly DraftPolicy[], from: number, to: number): DraftPolicy[] {
  const policy = draft[from];
  return policy === undefined || to < 0 || to >= draft.length
    ? [...draft]
    : draft.toSpliced(from, 1).toSpliced(to, 0, policy);
}

export function duplicated(draft: readonly DraftPolicy[], index: number): DraftPolicy[] {
  const policy = draft[index];
  return policy === undefined
    ? [...draft]
    : draft.toSpliced(index + 1, 0, newPolicy({ ...policy, title: copyTitle(policy.title, draft) }));
}

function copyTitle(title: string, draft: readonly DraftPolicy[]): string {
  const taken = new Set(draft.map((policy) => policy.title));
  for (let number = 1; ; number += 1) {
    const next = `${title} (copy${number === 1 ? "" : ` ${number}`})`.trim();
    if (!taken.has(next)) {
      return next;
    }
  }
}

export type Difference =
  | { readonly kind: "added"; readonly policy: DraftPolicy }
  | { readonly kind: "removed"; readonly policy: DraftPolicy }
  | { readonly kind: "changed"; readonly before: DraftPolicy; readonly policy: DraftPolicy };

/** The differences between two versions, and whether unchanged policies have another order. */
export function differences(
  before: readonly DraftPolicy[],
  after: readonly DraftPolicy[],
): { policies: Difference[]; reordered: boolean } {
  const pairs = paired(before, after);
  const policies: Difference[] = [];
  for (const policy of after) {
    const old = pairs.get(policy);
    if (old === undefined) {
      policies.push({ kind: "added", policy });
    } else if (!sameText(old, policy)) {
      policies.push({ kind: "changed", before: old, policy });
    }
  }
  const kept = new Set(pairs.values());
  policies.push(
    ...before.filter((policy) => !kept.has(policy)).map((policy) => ({ kind: "removed" as const, policy })),
  );
  const order = after.flatMap((policy) => {
    const old = pairs.get(policy);
    return old === undefined ? [] : [before.indexOf(old)];
  });
  return { policies, reordered: order.some((place, index) => index > 0 && place < (order[index - 1] ?? 0)) };
}

/** Matches policies of the two versions by equal text, then by key, then by title. */
function paired(
  before: readonly DraftPolicy[],
  after: readonly DraftPolicy[],
): Map<DraftPolicy, DraftPolicy> {
  const pairs = new Map<DraftPolicy, DraftPolicy>();
  const free = new Set(before);
  const rules: ((one: DraftPolicy, other: DraftPolicy) => boolean)[] = [
    sameText,
    (one, other) => one.key === other.key,
    (one, other) => one.title !== "" && one.title === other.title,
  ];
  for (const rule of rules) {
    for (const policy of after) {
      const old = pairs.has(policy) ? undefined : [...free].find((one) => rule(one, policy));
      if (old !== undefined) {
        pairs.set(policy, old);
        free.delete(old);
      }
    }
  }
  return pairs;
}

/** Why a name is invalid, or `null`. */
export function nameProblem(name: string): string | null {
  if (name === "") {
    return "A role needs a name.";
  }
  if (name.length > 64) {
    return `At most 64 characters; these are ${name.length}.`;
  }
  if (!/^[A-Za-z0-9]/.test(name)) {
    return "It must begin with a letter or a digit.";
  }
  const wrong = /[^A-Za-z0-9._-]/u.exec(name)?.[0];
  return wrong === undefined
    ? null
    : `${wrong === " " ? "A space" : `“${visible(wrong)}”`} is not allowed: only A-Z, a-z, 0-9, dot, underscore and hyphen.`;
}
