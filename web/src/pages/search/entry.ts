import { conditionText } from "./conditions";
import type { Field } from "./fields";
import { type Read, readConditions } from "./parse";

function textOf(read: Read): string {
  return "condition" in read
    ? conditionText(read.condition, read.condition.field.ref, read.condition.operator.name)
    : read.text;
}

/** Adds the typed conditions, or replaces the edited one. Duplicates are removed. */
export function withTyped(
  reads: readonly Read[],
  editing: number | null,
  typed: string,
  fields: readonly Field[],
  { maxConditions, maxValues }: { maxConditions: number; maxValues: number },
): { reads: readonly Read[] } | { problem: string } {
  const read = readConditions(typed, fields, maxValues);
  const wrong = read.find((one) => "problem" in one);
  if (wrong !== undefined && "problem" in wrong) {
    return { problem: wrong.problem };
  }
  const kept = reads.filter((_, place) => place !== editing);
  const texts = new Set(kept.map(textOf));
  const fresh = read.filter((one) => !texts.has(textOf(one)));
  if (kept.length + fresh.length > maxConditions) {
    return { problem: `A search may have ${maxConditions} conditions. Remove one first.` };
  }
  const at = editing ?? kept.length;
  return { reads: [...kept.slice(0, at), ...fresh, ...kept.slice(at)] };
}
