import type { Api } from "../../api/client";
import { sanitize } from "../../lib/sanitize";

/** An edited policy. Its key stays the same when it is moved or changed. */
export type DraftPolicy = {
  readonly key: string;
  readonly title: string;
  readonly description: string;
  readonly expression: string;
};

let keyCount = 0;

export function newPolicy(initial: Partial<Omit<DraftPolicy, "key">> = {}): DraftPolicy {
  keyCount += 1;
  return { title: "", description: "", expression: "", ...initial, key: `new ${keyCount}` };
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

export function sameText(a: DraftPolicy, b: DraftPolicy): boolean {
  return a.title === b.title && a.description === b.description && a.expression === b.expression;
}

/** The first reason why a draft cannot be saved, or `null`. */
export function validateDraft(draft: readonly DraftPolicy[], mayBeEmpty: boolean): string | null {
  if (draft.length === 0) {
    return mayBeEmpty ? null : "A role needs a policy. To remove all access, delete the role.";
  }
  for (const [index, policy] of draft.entries()) {
    const missingPart =
      policy.title.trim() === "" ? "a title" : policy.expression.trim() === "" ? "an expression" : null;
    if (missingPart !== null) {
      return `Policy ${index + 1} needs ${missingPart}.`;
    }
  }
  return null;
}

/** Whether saving would change nothing. */
export function sameDraft(a: readonly DraftPolicy[], b: readonly DraftPolicy[]): boolean {
  return (
    a.length === b.length &&
    a.every((policy, index) => {
      const counterpart = b[index];
      return counterpart !== undefined && sameText(policy, counterpart);
    })
  );
}

export function movePolicy(draft: readonly DraftPolicy[], from: number, to: number): DraftPolicy[] {
  const policy = draft[from];
  return policy === undefined || to < 0 || to >= draft.length
    ? [...draft]
    : draft.toSpliced(from, 1).toSpliced(to, 0, policy);
}

export function duplicatePolicy(draft: readonly DraftPolicy[], index: number): DraftPolicy[] {
  const policy = draft[index];
  return policy === undefined
    ? [...draft]
    : draft.toSpliced(index + 1, 0, newPolicy({ ...policy, title: copyTitle(policy.title, draft) }));
}

function copyTitle(title: string, draft: readonly DraftPolicy[]): string {
  const usedTitles = new Set(draft.map((policy) => policy.title));
  for (let number = 1; ; number += 1) {
    const next = `${title} (copy${number === 1 ? "" : ` ${number}`})`.trim();
    if (!usedTitles.has(next)) {
      return next;
    }
  }
}

export type PolicyDifference =
  | { readonly kind: "added"; readonly policy: DraftPolicy }
  | { readonly kind: "removed"; readonly policy: DraftPolicy }
  | { readonly kind: "changed"; readonly before: DraftPolicy; readonly policy: DraftPolicy };

/** The differences between two versions, and whether unchanged policies have another order. */
export function diffDrafts(
  before: readonly DraftPolicy[],
  after: readonly DraftPolicy[],
): { policies: PolicyDifference[]; reordered: boolean } {
  const pairs = pairPolicies(before, after);
  const policies: PolicyDifference[] = [];
  for (const policy of after) {
    const old = pairs.get(policy);
    if (old === undefined) {
      policies.push({ kind: "added", policy });
    } else if (!sameText(old, policy)) {
      policies.push({ kind: "changed", before: old, policy });
    }
  }
  const pairedPolicies = new Set(pairs.values());
  policies.push(
    ...before
      .filter((policy) => !pairedPolicies.has(policy))
      .map((policy) => ({ kind: "removed" as const, policy })),
  );
  const order = after.flatMap((policy) => {
    const old = pairs.get(policy);
    return old === undefined ? [] : [before.indexOf(old)];
  });
  return {
    policies,
    reordered: order.some((position, index) => index > 0 && position < (order[index - 1] ?? 0)),
  };
}

/** Matches policies of the two versions by equal text, then by key, then by title. */
function pairPolicies(
  before: readonly DraftPolicy[],
  after: readonly DraftPolicy[],
): Map<DraftPolicy, DraftPolicy> {
  const pairs = new Map<DraftPolicy, DraftPolicy>();
  const unpaired = new Set(before);
  const rules: ((a: DraftPolicy, b: DraftPolicy) => boolean)[] = [
    sameText,
    (a, b) => a.key === b.key,
    (a, b) => a.title !== "" && a.title === b.title,
  ];
  for (const rule of rules) {
    for (const policy of after) {
      const old = pairs.has(policy) ? undefined : [...unpaired].find((a) => rule(a, policy));
      if (old !== undefined) {
        pairs.set(policy, old);
        unpaired.delete(old);
      }
    }
  }
  return pairs;
}

/** Why a name is invalid, or `null`. */
export function validateRoleName(name: string): string | null {
  if (name === "") {
    return "A role needs a name.";
  }
  if (name.length > 64) {
    return `At most 64 characters; these are ${name.length}.`;
  }
  if (!/^[A-Za-z0-9]/.test(name)) {
    return "It must begin with a letter or a digit.";
  }
  const invalidCharacter = /[^A-Za-z0-9._-]/u.exec(name)?.[0];
  return invalidCharacter === undefined
    ? null
    : `${invalidCharacter === " " ? "A space" : `“${sanitize(invalidCharacter)}”`} is not allowed: only A-Z, a-z, 0-9, dot, underscore and hyphen.`;
}
