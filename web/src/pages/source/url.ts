export const STEPS = ["table", "columns", "fields", "role", "speed", "done"] as const;
export type Step = (typeof STEPS)[number];

/** What the address says of the wizard: the step, and the table that was chosen. */
export type SetupUrl = { step?: Step; database?: string; table?: string };

export const TABS = ["fields", "binding", "speed"] as const;
export type Tab = (typeof TABS)[number];

/** What the address says of the day-to-day page. */
export type SourceUrl = { tab?: Tab };

const one = <T extends string>(known: readonly T[], value: unknown): T | undefined =>
  known.find((name) => name === value);

// The router reads `database=2024` as a number.
const text = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";

export function setupOfUrl(search: Record<string, unknown>): SetupUrl {
  const step = one(STEPS, search.step);
  const [database, table] = [text(search.database), text(search.table)];
  return {
    ...(step === undefined ? {} : { step }),
    // One without the other names no table.
    ...(database === "" || table === "" ? {} : { database, table }),
  };
}

export function sourceOfUrl(search: Record<string, unknown>): SourceUrl {
  const tab = one(TABS, search.tab);
  return tab === undefined ? {} : { tab };
}
