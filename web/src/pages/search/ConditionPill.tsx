import { IconAlertTriangle, IconBan, IconX } from "@tabler/icons-react";
import { SanitizedText } from "../../components/SanitizedText";
import { sanitize } from "../../lib/sanitize";
import classes from "./ConditionEntry.module.css";
import { type Condition, displayValues, editText, type FilterTerm } from "./conditions";
import { displayName, type Field } from "./fields";
import type { ParsedTerm } from "./parse";

/** A term of the search, with buttons to edit, exclude and remove it. */
export function ConditionPill({
  parsed,
  fields,
  isEdited,
  onEdit,
  onToggleExclusion,
  onRemove,
}: {
  parsed: ParsedTerm;
  fields: readonly Field[];
  isEdited: boolean;
  onEdit: () => void;
  onToggleExclusion: (term: FilterTerm) => void;
  onRemove: () => void;
}) {
  const term = "term" in parsed ? parsed.term : null;
  const text = sanitize(term === null ? parsed.text : editText(term));
  return (
    <span
      className={classes.pill}
      data-has-error={"error" in parsed || undefined}
      data-editing={isEdited || undefined}
      data-excluded={term?.isExclusion || undefined}
      title={"error" in parsed ? sanitize(parsed.error) : text.slice(0, 2_000)}
    >
      <button
        type="button"
        className={classes.edit}
        onClick={onEdit}
        aria-label={`Edit condition ${text.slice(0, 200)}`}
      >
        {term !== null ? (
          <TermText term={term} fields={fields} />
        ) : (
          <>
            <IconAlertTriangle size={14} aria-hidden /> <SanitizedText text={parsed.text} maxLength={80} />
          </>
        )}
      </button>
      {term?.conditions.length === 1 && (
        <button
          type="button"
          className={classes.remove}
          onClick={() => onToggleExclusion(term)}
          aria-pressed={term.isExclusion}
          aria-label={`Exclude traces with ${text.replace(/^not /, "").slice(0, 200)}`}
          title={
            term.isExclusion
              ? "Traces with such a span are excluded. Click to require one."
              : "Exclude traces with such a span"
          }
        >
          <IconBan size={14} aria-hidden />
        </button>
      )}
      <button
        type="button"
        className={classes.remove}
        onClick={onRemove}
        aria-label={`Remove condition ${text.slice(0, 200)}`}
      >
        <IconX size={14} aria-hidden />
      </button>
    </span>
  );
}

const MAX_SHOWN_VALUES = 4;

function TermText({ term, fields }: { term: FilterTerm; fields: readonly Field[] }) {
  const isGroup = term.conditions.length > 1;
  return (
    <>
      {term.isExclusion && <b>not </b>}
      {isGroup && <span className={classes.operator}>same span: </span>}
      {term.conditions.map((condition, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a condition is identified only by its position
        <span key={index}>
          {index > 0 && <span className={classes.operator}> and </span>}
          <ConditionText condition={condition} name={displayName(condition.field, fields)} />
        </span>
      ))}
    </>
  );
}

function ConditionText({ condition, name }: { condition: Condition; name: string }) {
  const values = displayValues(condition);
  return (
    <>
      <SanitizedText text={name} /> <span className={classes.operator}>{condition.operator.label}</span>
      {values.slice(0, MAX_SHOWN_VALUES).map((value, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: values of a condition are identified only by their position
        <span key={index}>
          {index === 0 ? " " : condition.operator.arity === "two" ? " and " : ", "}
          <b>{value === "" ? '""' : <SanitizedText text={value} maxLength={60} />}</b>
        </span>
      ))}
      {values.length > MAX_SHOWN_VALUES && ` and ${values.length - MAX_SHOWN_VALUES} more`}
    </>
  );
}
