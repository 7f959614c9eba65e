/** What stands in place of a name that is empty, or of blanks alone: the sender of spans chooses their names. */
export const NO_NAME = "(no name)";

/** A span's name, or what to call it when it has none. */
export function nameOrNone(name: string | null | undefined): string {
  return name === null || name === undefined || name.trim() === "" ? NO_NAME : name;
}
