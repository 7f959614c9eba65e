import type { Api } from "../../api/client";
import { LosslessNumber, writeJson } from "../../lib/json";
import { countOf } from "../../lib/numbers";
import { actionLabel } from "../audit/actions";
import { type DraftPolicy, type PolicyDifference, sameText } from "../roles/draft";

type ModelChange = Api["ModelChange"];

type RoleChanges = { name: string; roleChange: ModelChange | null; policies: ModelChange[] };

/** Changes of the model by object: roles with their policies, sorted by name. */
export function groupChanges(changes: readonly ModelChange[]) {
  const roles = new Map<string, RoleChanges>();
  for (const change of changes) {
    if (change.kind === "role" || change.kind === "policy") {
      const name = roleOf(change);
      const role = roles.get(name) ?? { name, roleChange: null, policies: [] };
      roles.set(name, role);
      if (change.kind === "role") {
        role.roleChange = change;
      } else {
        role.policies.push(change);
      }
    }
  }
  return {
    source: changes.filter(({ kind }) => kind === "binding" || kind === "field"),
    roles: [...roles.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    mappings: changes.filter(({ kind }) => kind === "mapping"),
    tests: changes.filter(({ kind }) => kind === "tests"),
  };
}

/** Policies are named `role / title`; names of roles contain no space. */
const SEPARATOR = " / ";

function roleOf({ kind, name }: ModelChange): string {
  return kind === "policy" ? (name.split(SEPARATOR, 1)[0] ?? name) : name;
}

/** Reads a policy from the model file. */
function parsePolicy(value: unknown, key: string): DraftPolicy | null {
  if (typeof value !== "object" || value === null || !("expression" in value)) {
    return null;
  }
  const text = (member: string) => {
    const part = (value as Record<string, unknown>)[member];
    return typeof part === "string" ? part : "";
  };
  return { key, title: text("title"), description: text("description"), expression: text("expression") };
}

/** The policies of a role that is added or removed. */
export function policiesOf(change: ModelChange): PolicyDifference[] {
  const policiesIn = (value: unknown): DraftPolicy[] => {
    const policies = (value as { policies?: unknown } | null)?.policies;
    return Array.isArray(policies)
      ? policies.flatMap((policy, index) => parsePolicy(policy, String(index)) ?? [])
      : [];
  };
  return [
    ...policiesIn(change.before).map((policy) => ({ kind: "removed" as const, policy })),
    ...policiesIn(change.after).map((policy) => ({ kind: "added" as const, policy })),
  ];
}

/** A change of a policy for display, or `null` if its text is unchanged. */
export function policyDifference({ before, after }: ModelChange): PolicyDifference | null {
  const [oldPolicy, newPolicy] = [parsePolicy(before, "before"), parsePolicy(after, "after")];
  if (oldPolicy === null) {
    return newPolicy === null ? null : { kind: "added", policy: newPolicy };
  }
  if (newPolicy === null) {
    return { kind: "removed", policy: oldPolicy };
  }
  return sameText(oldPolicy, newPolicy) ? null : { kind: "changed", before: oldPolicy, policy: newPolicy };
}

/** A value of the model as text for a comparison, with a line per member; empty for an absent value. */
export function textOf(value: unknown): string {
  return linesOf(value, "").join("\n");
}

function linesOf(value: unknown, name: string): string[] {
  if (value === null || value === undefined) {
    return name === "" ? [] : [`${name}: none`];
  }
  if (typeof value === "object" && !Array.isArray(value) && !(value instanceof LosslessNumber)) {
    return Object.entries(value).flatMap(([member, inner]) =>
      linesOf(inner, name === "" ? member : `${name}.${member}`),
    );
  }
  const text = typeof value === "string" ? value : writeJson(value, 0);
  return name === "" ? text.split("\n") : [`${name}: ${text}`];
}

/** Numbers of changes by kind: `1 added, 2 changed`. */
export function changeCounts(changes: readonly ModelChange[]): string {
  const kinds = ["removed", "changed", "added", "moved"] as const;
  return kinds
    .map((kind) => [kind, changes.filter(({ change }) => change === kind).length] as const)
    .filter(([, count]) => count > 0)
    .map(([kind, count]) => `${count.toLocaleString("en")} ${kind}`)
    .join(", ");
}

/** Description of the action that created a version. */
export function actionText(action: string): string {
  return action === "upgrade" ? "Initial state" : actionLabel(action);
}

/** Author of a version. Automatic changes of the service have no user name. */
export function authorOf({ by }: Pick<Api["HistoryEntry"], "by">): string {
  return by.username === "" ? "the service" : by.username;
}

/** Why a plan cannot be applied, or `null`. An earlier version may be restored regardless of its tests. */
export function validationError(
  plan: Pick<Api["ModelPlan"], "empty" | "tests">,
  testsMustPass: boolean,
): string | null {
  const { failed } = plan.tests;
  return testsMustPass && failed.length > 0
    ? `${countOf(failed.length, "test of the file fails", "tests of the file fail")}; nothing is applied until they pass.`
    : plan.empty
      ? "No differences."
      : null;
}

/** A file with the access model. */
export type ModelFile = {
  /** Unique id, because two files may have the same text. */
  readonly id: string;
  readonly text: string;
  readonly type: "application/json" | "application/yaml";
};

/** Content type of a file, from its name and its first character. */
export function contentTypeOf(name: string, text: string): ModelFile["type"] {
  if (/\.json$/i.test(name)) {
    return "application/json";
  }
  return !/\.ya?ml$/i.test(name) && /^\s*\{/.test(text) ? "application/json" : "application/yaml";
}

/** Maximum file size of the service. Larger files are not sent. */
export const MAX_BYTES = 8 * 1024 * 1024;

/** Parses a version number in a URL, or returns `null`. */
export function parseVersion(text: string): number | null {
  const number = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : 0;
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}

/** ETag of a version. */
export const etagOf = (version: number): string => `"${version}"`;
