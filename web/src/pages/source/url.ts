export const STEPS = ["table", "columns", "fields", "role", "speed", "done"] as const;
export type Step = (typeof STEPS)[number];

/** State of the wizard in the URL: the step and the selected table. */
export type SetupUrl = { step?: Step; database?: string; table?: string };

export const TABS = ["fields", "binding", "speed"] as const;
export type Tab = (typeof TABS)[number];

/** State of the trace source page in the URL. */
export type SourceUrl = { tab?: Tab };

const one = <T extends string>(known: readonly T[], value: unknown): T | undefined =>
  known.find((name) => name === value);

// The router parses `database=2024` as a number.
const text = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";

export function setupOfUrl(search: Record<string, unknown>): SetupUrl {
  const step = one(STEPS, search.step);
  const [database, table] = [text(search.database), text(search.table)];
  return {
    ...(step === undefined ? {} : { step }),
    // Database and table are only valid together.
    ...(database === "" || table === "" ? {} : { database, table }),
  };
}

export function sourceOfUrl(search: Record<string, unknown>): SourceUrl {
  const tab = one(TABS, search.tab);
  return tab === undefined ? {} : { tab };
}
