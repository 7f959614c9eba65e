import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Api } from "../api/client";
import { filterSchemaQuery } from "../api/queries";
import { useMe } from "../app/useMe";
import type { Vocabulary } from "./completion";
import { knownUsersQuery } from "./queries";

/** The fields that the caller's policies may use. For users who are not administrators, these are the fields that they may search
 * by. */
export function policyFields(fields: readonly Api["FieldDescriptor"][]): Api["FieldDescriptor"][] {
  return fields.filter((field) => field.policy !== false && field.type !== "number");
}

/** Names of user attributes, the most frequent first. */
export function attributeNames(attributes: readonly Api["Attributes"][]): string[] {
  const counts = new Map<string, number>();
  for (const name of attributes.flatMap((user) => Object.keys(user))) {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts]
    .sort(([name, count], [otherName, otherCount]) => otherCount - count || name.localeCompare(otherName))
    .map(([name]) => name);
}

/** The editor's vocabulary, which grows as data is loaded. */
export function useVocabulary(): Vocabulary {
  const me = useMe();
  const schema = useQuery(filterSchemaQuery);
  const users = useQuery({ ...knownUsersQuery, enabled: me.is_admin });
  return useMemo(
    () => ({
      fields: policyFields(schema.data?.fields ?? []),
      attributes: attributeNames([
        me.attributes,
        ...(users.data?.users ?? []).map((user) => user.attributes),
      ]),
    }),
    [schema.data, users.data, me.attributes],
  );
}
