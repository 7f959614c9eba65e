/** Replacement for names that are empty or blank, which senders of spans can choose. */
export const NO_NAME = "(no name)";

/** Returns a span's name, or a replacement if it has none. */
export function nameOrPlaceholder(name: string | null | undefined): string {
  return name === null || name === undefined || name.trim() === "" ? NO_NAME : name;
}
