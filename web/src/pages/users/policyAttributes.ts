// Strings and comments are matched first, so that attributes mentioned in them do not count.
const TOKEN_PATTERN = new RegExp(
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
export function referencedAttributes(expression: string): string[] {
  const names = new Set<string>();
  for (const { groups } of expression.matchAll(TOKEN_PATTERN)) {
    const literal = groups?.in ?? groups?.key;
    const name = groups?.word ?? (literal === undefined ? undefined : unquote(literal));
    if (name !== undefined) {
      names.add(name);
    }
  }
  return [...names];
}

function unquote(literal: string): string {
  return literal.slice(1, -1).replace(/\\(["'\\])/g, "$1");
}
