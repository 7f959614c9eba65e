import type { Api } from "../../api/client";
import { type Attributes, valueText } from "./attributes";

/** Settings of a user that administrators edit. */
export type Settings = { readonly roles: readonly string[]; readonly attributes: Attributes };

type Value = Api["Attribute"] | undefined;

function attributeValue(attributes: Attributes, name: string): Value {
  return Object.hasOwn(attributes, name) ? attributes[name] : undefined;
}

const sameValue = (a: Value, b: Value) => JSON.stringify(a) === JSON.stringify(b);

const sameRoles = (a: readonly string[], b: readonly string[]) =>
  a.length === b.length && a.every((role) => b.includes(role));

function attributeNames(...lists: Attributes[]): string[] {
  return [...new Set(lists.flatMap(Object.keys))];
}

function sameAttributes(a: Attributes, b: Attributes): boolean {
  return attributeNames(a, b).every((name) => sameValue(attributeValue(a, name), attributeValue(b, name)));
}

/** The request body: the members that differ. */
export function userChangeOf(from: Settings, to: Settings): Api["UserChange"] {
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
  for (const name of attributeNames(from.attributes, to.attributes)) {
    const [before, after] = [attributeValue(from.attributes, name), attributeValue(to.attributes, name)];
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
 * in `conflictingAttributes`. */
export function mergeChanges(
  base: Settings,
  mine: Settings,
  theirs: Settings,
): { settings: Settings; conflictingAttributes: string[] } {
  const roles = [
    ...theirs.roles.filter((role) => mine.roles.includes(role) || !base.roles.includes(role)),
    ...mine.roles.filter((role) => !base.roles.includes(role) && !theirs.roles.includes(role)),
  ];
  const conflictingAttributes: string[] = [];
  const attributes: [string, Api["Attribute"]][] = [];
  for (const name of attributeNames(theirs.attributes, mine.attributes)) {
    const baseValue = attributeValue(base.attributes, name);
    const [myValue, theirValue] = [
      attributeValue(mine.attributes, name),
      attributeValue(theirs.attributes, name),
    ];
    const isChangedByMe = !sameValue(baseValue, myValue);
    if (isChangedByMe && !sameValue(baseValue, theirValue) && !sameValue(myValue, theirValue)) {
      conflictingAttributes.push(name);
    }
    const value = isChangedByMe ? myValue : theirValue;
    if (value !== undefined) {
      attributes.push([name, value]);
    }
  }
  return { settings: { roles, attributes: Object.fromEntries(attributes) }, conflictingAttributes };
}
