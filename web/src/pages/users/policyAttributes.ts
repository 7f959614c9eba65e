// Text and comments first, so that what they say of attributes is not taken for a use of one.
const FORM = new RegExp(
  [
    String.raw`(?<in>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s+in\s+user\.attributes(?![\w.[])`,
    String.raw`user\.attributes\.(?<word>[A-Za-z_]\w*)`,
    String.raw`user\.attributes\[\s*(?<key>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]`,
    `[rR]"[^"]*"`,
    `[rR]'[^']*'`,
    String.raw`"(?:[^"\\]|\\.)*"`,
    String.raw`'(?:[^'\\]|\\.)*'`,
    String.raw`//[^\n]*`,
  ].join("|"),
  "g",
);

/** The user attributes that a policy's expression names, in the order of their first use. */
export function attributesNamed(expression: string): string[] {
  const found = new Set<string>();
  for (const { groups } of expression.matchAll(FORM)) {
    const literal = groups?.in ?? groups?.key;
    const name = groups?.word ?? (literal === undefined ? undefined : unquoted(literal));
    if (name !== undefined) {
      found.add(name);
    }
  }
  return [...found];
}

function unquoted(literal: string): string {
  return literal.slice(1, -1).replace(/\\(["'\\])/g, "$1");
}
