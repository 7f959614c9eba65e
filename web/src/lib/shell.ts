/** Quotes a text as one word of a POSIX shell: nothing is expanded within single quotes. */
export function quoteShellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
