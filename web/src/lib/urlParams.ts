/** A URL parameter as text that is not blank. The router parses `123` and `true` as JSON values. */
export function textParam(value: unknown): string | undefined {
  const text = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
  return typeof text === "string" && text.trim() !== "" ? text : undefined;
}

/** A URL parameter with one of a few values. */
export function oneOf<T extends string>(allowed: readonly T[], value: unknown): T | undefined {
  return allowed.find((candidate) => candidate === value);
}

type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** Parameters without those that are undefined, which the types of the router and of the API do not accept. */
export function omitUndefined<T extends object>(parameters: T): Defined<T> {
  return Object.fromEntries(
    Object.entries(parameters).filter(([, value]) => value !== undefined),
  ) as Defined<T>;
}
