import type { Api } from "../../api/client";
import { LosslessNumber, writeJson } from "../../lib/json";
import { actionLabel } from "../audit/actions";
import type { Difference, DraftPolicy } from "../roles/draft";
import { countOf } from "../roles/listing";

type ModelChange = Api["ModelChange"];

/** Changes of the model by what they are of: the roles each with their policies, by name. */
export type Grouped = {
  readonly source: readonly ModelChange[];
  readonly roles: readonly {
    readonly name: string;
    readonly own: ModelChange | null;
    readonly policies: readonly ModelChange[];
  }[];
  readonly tests: readonly ModelChange[];
};

export function grouped(changes: readonly ModelChange[]): Grouped {
  const roles = new Map<string, { name: string; own: ModelChange | null; policies: ModelChange[] }>();
  for (const change of changes) {
    if (change.kind === "role" || change.kind === "policy") {
      const name = roleOf(change);
      const role = roles.get(name) ?? { name, own: null, policies: [] };
      roles.set(name, role);
      if (change.kind === "role") {
        role.own = change;
      } else {
        role.policies.push(change);
      }
    }
  }
  return {
    source: changes.filter(({ kind }) => kind === "binding" || kind === "field"),
    roles: [...roles.values()].toSorted((one, other) => (one.name < other.name ? -1 : 1)),
    tests: changes.filter(({ kind }) => kind === "tests"),
  };
}

/** Names of policies are `role / title`; names of roles have no space in them. */
const SEPARATOR = " / ";

function roleOf({ kind, name }: ModelChange): string {
  return kind === "policy" ? (name.split(SEPARATOR, 1)[0] ?? name) : name;
}

/** A policy as the model's file has it. */
function policyOf(value: unknown, key: string): DraftPolicy | null {
  if (typeof value !== "object" || value === null || !("expression" in value)) {
    return null;
  }
  const text = (member: string) => {
    const found = (value as Record<string, unknown>)[member];
    return typeof found === "string" ? found : "";
  };
  return { key, title: text("title"), description: text("description"), expression: text("expression") };
}

/** The policies of a role that comes or goes as a whole. */
export function policiesOf(change: ModelChange): Difference[] {
  const listed = (value: unknown): DraftPolicy[] => {
    const policies = (value as { policies?: unknown } | null)?.policies;
    return Array.isArray(policies)
      ? policies.flatMap((one, place) => policyOf(one, String(place)) ?? [])
      : [];
  };
  return [
    ...listed(change.before).map((policy) => ({ kind: "removed" as const, policy })),
    ...listed(change.after).map((policy) => ({ kind: "added" as const, policy })),
  ];
}

/** A change of a policy as the pages about roles show it; `null` for one that changes no text of it. */
export function policyDifference({ before, after }: ModelChange): Difference | null {
  const [old, now] = [policyOf(before, "before"), policyOf(after, "after")];
  if (old === null) {
    return now === null ? null : { kind: "added", policy: now };
  }
  if (now === null) {
    return { kind: "removed", policy: old };
  }
  return old.title === now.title && old.description === now.description && old.expression === now.expression
    ? null
    : { kind: "changed", before: old, policy: now };
}

/** A value of the model as text to compare, a line for each member; nothing for one that is not there. */
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

/** How many changes there are, by what they do: `1 added, 2 changed`. */
export function inCounts(changes: readonly ModelChange[]): string {
  const kinds = ["removed", "changed", "added", "moved"] as const;
  return kinds
    .map((kind) => [kind, changes.filter(({ change }) => change === kind).length] as const)
    .filter(([, count]) => count > 0)
    .map(([kind, count]) => `${count.toLocaleString("en")} ${kind}`)
    .join(", ");
}

/** What was done, in words. */
export function actionText(action: string): string {
  return action === "upgrade" ? "Began the history with what was there" : actionLabel(action);
}

/** Who made a change. What the service did by itself has no name. */
export function authorOf({ by }: Pick<Api["HistoryEntry"], "by">): string {
  return by.username === "" ? "the service" : by.username;
}

/** Why a plan cannot be applied; `null` when it can. A state that was in force may be so again whatever its tests say. */
export function obstacle(
  plan: Pick<Api["ModelPlan"], "empty" | "tests">,
  testsMustPass: boolean,
): string | null {
  const { failed } = plan.tests;
  return testsMustPass && failed.length > 0
    ? `${countOf(failed.length, "test of the file fails", "tests of the file fail")}; nothing is applied until they pass.`
    : plan.empty
      ? "Nothing is different."
      : null;
}

/** A file with the access model. */
export type ModelFile = {
  /** Tells files apart, of which two may have the same text. */
  readonly id: string;
  readonly text: string;
  readonly type: "application/json" | "application/yaml";
};

/** The content type of a file, by its name and how it begins. */
export function typeOf(name: string, text: string): ModelFile["type"] {
  if (/\.json$/i.test(name)) {
    return "application/json";
  }
  return !/\.ya?ml$/i.test(name) && /^\s*\{/.test(text) ? "application/json" : "application/yaml";
}

/** What the service takes; a larger file is not sent at all. */
export const MOST_BYTES = 8 * 1024 * 1024;

/** The number of a version in an address; `null` when it is none. */
export function versionOf(text: string): number | null {
  const number = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : 0;
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}

/** The tag of a version. */
export const tagOf = (version: number): string => `"${version}"`;
