export const STEPS = ["table", "columns", "fields", "role", "speed", "done"] as const;
export type Step = (typeof STEPS)[number];

/** State of the wizard in the URL: the step and the selected table. */
export type SetupUrl = { step?: Step; database?: string; table?: string };

export const TABS = ["fields", "binding", "speed"] as const;
export type Tab = (typeof TABS)[number];

/** State of the trace source page in the URL. */
export type SourceUrl = { tab?: Tab };

const oneOf = <T extends string>(allowed: readonly T[], value: unknown): T | undefined =>
  allowed.find((name) => name === value);

// The router parses `database=2024` as a number.
const textParam = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";

export function parseSetupUrl(search: Record<string, unknown>): SetupUrl {
  const step = oneOf(STEPS, search.step);
  const [database, table] = [textParam(search.database), textParam(search.table)];
  return {
    ...(step === undefined ? {} : { step }),
    // Database and table are only valid together.
    ...(database === "" || table === "" ? {} : { database, table }),
  };
}

export function parseSourceUrl(search: Record<string, unknown>): SourceUrl {
  const tab = oneOf(TABS, search.tab);
  return tab === undefined ? {} : { tab };
}
