import type { Api } from "../../api/client";
import { type Attributes, valueText } from "./attributes";

/** Settings of a user that administrators edit. */
export type Settings = { readonly roles: readonly string[]; readonly attributes: Attributes };

type Value = Api["Attribute"] | undefined;

function own(attributes: Attributes, name: string): Value {
  return Object.hasOwn(attributes, name) ? attributes[name] : undefined;
}

const sameValue = (one: Value, other: Value) => JSON.stringify(one) === JSON.stringify(other);

const sameRoles = (one: readonly string[], other: readonly string[]) =>
  one.length === other.length && one.every((role) => other.includes(role));

function names(...all: Attributes[]): string[] {
  return [...new Set(all.flatMap(Object.keys))];
}

function sameAttributes(one: Attributes, other: Attributes): boolean {
  return names(one, other).every((name) => sameValue(own(one, name), own(other, name)));
}

/** The request body: the members that differ. */
export function changeOf(from: Settings, to: Settings): Api["UserChange"] {
  return {
    ...(sameRoles(from.roles, to.roles) ? {} : { roles: [...to.roles] }),
    ...(sameAttributes(from.attributes, to.attributes) ? {} : { attributes: to.attributes }),
  };
}

/** Describes a change, one line per difference. */
export function describeChange(from: Settings, to: Settings): string[] {
  const lines = [
    ...to.roles.filter((role) => !from.roles.includes(role)).map((role) => `role ${role} added`),
    ...from.roles.filter((role) => !to.roles.includes(role)).map((role) => `role ${role} removed`),
  ];
  for (const name of names(from.attributes, to.attributes)) {
    const [before, after] = [own(from.attributes, name), own(to.attributes, name)];
    if (sameValue(before, after)) {
      continue;
    }
    lines.push(
      after === undefined
        ? `attribute ${name} removed`
        : before === undefined
          ? `attribute ${name} added: ${valueText(after)}`
          : `attribute ${name} changed from ${valueText(before)} to ${valueText(after)}`,
    );
  }
  return lines;
}

/** Merges two changes of the same state. If both change the same attribute, `mine` takes precedence, and the attribute is listed
 * in `both`. */
export function mergeChanges(
  base: Settings,
  mine: Settings,
  theirs: Settings,
): { settings: Settings; both: string[] } {
  const roles = [
    ...theirs.roles.filter((role) => mine.roles.includes(role) || !base.roles.includes(role)),
    ...mine.roles.filter((role) => !base.roles.includes(role) && !theirs.roles.includes(role)),
  ];
  const both: string[] = [];
  const attributes: [string, Api["Attribute"]][] = [];
  for (const name of names(theirs.attributes, mine.attributes)) {
    const before = own(base.attributes, name);
    const [here, there] = [own(mine.attributes, name), own(theirs.attributes, name)];
    const changed = !sameValue(before, here);
    if (changed && !sameValue(before, there) && !sameValue(here, there)) {
      both.push(name);
    }
    const value = changed ? here : there;
    if (value !== undefined) {
      attributes.push([name, value]);
    }
  }
  return { settings: { roles, attributes: Object.fromEntries(attributes) }, both };
}
