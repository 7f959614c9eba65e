import type { Api } from "../../api/client";

/** A rule or an attribute that is being edited. */
export type Row = { readonly id: number; readonly name: string; readonly expression: string };

/** A mapping that is being edited. Rows keep their identity while their texts change. */
export type MappingDraft = { readonly roles: readonly Row[]; readonly attributes: readonly Row[] };

let lastId = 0;

export function newRow(name = "", expression = ""): Row {
  lastId += 1;
  return { id: lastId, name, expression };
}

export function draftOf({ roles, attributes }: Api["ClaimsMapping"]): MappingDraft {
  return {
    roles: (roles ?? []).map(({ role, when }) => newRow(role, when)),
    attributes: Object.entries(attributes ?? {}).map(([name, expression]) => newRow(name, expression)),
  };
}

export function mappingOf({ roles, attributes }: MappingDraft): Api["ClaimsMapping"] {
  return {
    roles: roles.map(({ name, expression }) => ({ role: name, when: expression })),
    // Not by assignment: a name such as `__proto__` would set the prototype.
    attributes: Object.fromEntries(attributes.map(({ name, expression }) => [name, expression])),
  };
}

/** Names that two attributes have: the mapping would keep only one of them. */
export function repeatedNames(rows: readonly Row[]): string[] {
  const names = rows.map(({ name }) => name);
  return [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
}

/** The claims of a pasted text: a JSON object, or a whole token, whose payload is read without being verified. */
export function parseClaims(text: string): Record<string, unknown> | string {
  const parts = text.trim().split(".");
  try {
    const json = parts.length === 3 ? decodeBase64Url(parts[1] ?? "") : text;
    const claims: unknown = JSON.parse(json);
    return typeof claims === "object" && claims !== null && !Array.isArray(claims)
      ? (claims as Record<string, unknown>)
      : "Paste a JSON object, such as the payload of an ID token";
  } catch {
    return "This is neither JSON nor a token";
  }
}

function decodeBase64Url(text: string): string {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (byte) =>
    byte.charCodeAt(0),
  );
  return new TextDecoder().decode(bytes);
}
