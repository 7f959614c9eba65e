/** A text as one word of a shell, whatever it holds: within single quotes nothing is expanded. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
