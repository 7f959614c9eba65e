import { omitUndefined, oneOf, textParam } from "../../lib/urlParams";

export const STEPS = ["table", "columns", "fields", "role", "speed", "done"] as const;
export type Step = (typeof STEPS)[number];

/** State of the wizard in the URL: the step and the selected table. */
export type SetupUrl = { step?: Step; database?: string; table?: string };

export const TABS = ["fields", "binding", "speed"] as const;
export type Tab = (typeof TABS)[number];

/** State of the trace source page in the URL. */
export type SourceUrl = {
  tab?: Tab;
  /** Text that the listed fields contain. */
  find?: string;
};

export function parseSetupUrl(search: Record<string, unknown>): SetupUrl {
  const step = oneOf(STEPS, search.step);
  const [database, table] = [textParam(search.database), textParam(search.table)];
  // Database and table are only valid together.
  return omitUndefined(database === undefined || table === undefined ? { step } : { step, database, table });
}

export function parseSourceUrl(search: Record<string, unknown>): SourceUrl {
  return omitUndefined({ tab: oneOf(TABS, search.tab), find: textParam(search.find) });
}
