/** Number of values of an operator. */
export type Arity = "none" | "one" | "list" | "two";

/** An operator of the API. The first of its `spellings` is used in the URL. */
export type Operator = {
  readonly name: string;
  readonly label: string;
  readonly meaning: string;
  readonly arity: Arity;
  readonly spellings: readonly string[];
};

const operator = (
  name: string,
  label: string,
  meaning: string,
  arity: Arity,
  ...words: string[]
): Operator => ({ name, label, meaning, arity, spellings: [name, ...words] });

export const OPERATORS: readonly Operator[] = [
  operator("eq", "=", "is", "one", "=", "==", "is", "equals"),
  operator("ne", "!=", "is not (field must be present)", "one", "!=", "<>", "is not", "≠"),
  operator("in", "in", "is one of", "list", "one of"),
  operator("not_in", "not in", "is none of (field must be present)", "list", "not in"),
  operator("prefix", "starts with", "begins with", "one", "starts with", "startswith", "begins with", "^="),
  operator("exists", "exists", "is set", "none"),
  operator("not_exists", "does not exist", "is not set", "none", "does not exist", "not exists"),
  operator("has", "has", "one element is", "one", "contains"),
  operator("has_any", "has any of", "has at least one of", "list", "has any of", "has any"),
  operator("has_all", "has all of", "has every one of", "list", "has all of", "has all"),
  operator("gt", ">", "is more than", "one", ">"),
  operator("gte", ">=", "is at least", "one", ">=", "≥"),
  operator("lt", "<", "is less than", "one", "<"),
  operator("lte", "<=", "is at most", "one", "<=", "≤"),
  operator("between", "between", "from … to …, both included", "two"),
];

export function findOperator(name: string): Operator | undefined {
  return OPERATORS.find((candidate) => candidate.name === name);
}
