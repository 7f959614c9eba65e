// Strings and comments are matched first, so that attributes mentioned in them do not count.
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

/** The user attributes that an expression uses, in the order of their first use. */
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
