import { conditionCount, termText } from "./conditions";
import type { Field } from "./fields";
import { type ParsedTerm, parseConditions } from "./parse";

function textOf(condition: ParsedTerm): string {
  return "term" in condition
    ? termText(
        condition.term,
        (field) => field.ref,
        (operator) => operator.name,
      )
    : condition.text;
}

/** Adds the typed conditions, or replaces the edited one. Duplicates are removed. */
export function addTypedConditions(
  conditions: readonly ParsedTerm[],
  editing: number | null,
  typedText: string,
  fields: readonly Field[],
  { maxConditions, maxValues }: { maxConditions: number; maxValues: number },
): { conditions: readonly ParsedTerm[] } | { error: string } {
  const typedConditions = parseConditions(typedText, fields, maxValues);
  const invalid = typedConditions.find((condition) => "error" in condition);
  if (invalid !== undefined && "error" in invalid) {
    return { error: invalid.error };
  }
  const others = conditions.filter((_, index) => index !== editing);
  const texts = new Set(others.map(textOf));
  const added = typedConditions.filter((condition) => !texts.has(textOf(condition)));
  const terms = [...others, ...added].map((parsed) => ("term" in parsed ? [parsed.term] : []));
  if (conditionCount(terms.flat()) > maxConditions) {
    return { error: `A search may have at most ${maxConditions} conditions. Remove one first.` };
  }
  const insertAt = editing ?? others.length;
  return { conditions: [...others.slice(0, insertAt), ...added, ...others.slice(insertAt)] };
}
