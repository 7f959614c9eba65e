import { Combobox, Input, Loader, Pill, PillsInput, useCombobox } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconAlertTriangle, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, type Ref, useEffect, useId, useImperativeHandle, useRef, useState } from "react";
import { api, unwrap } from "../../api/client";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { countOf } from "../../lib/numbers";
import { sanitize } from "../../lib/sanitize";
import { TYPE_LABELS } from "../../lib/types";
import classes from "./ConditionEntry.module.css";
import { type Condition, displayValues, editText, operatorsOf, quoteValue } from "./conditions";
import { addTypedConditions } from "./entry";
import { type Field, matchingFields } from "./fields";
import type { Operator } from "./operators";
import { type ParsedCondition, parseConditions, type Stage, stageOf } from "./parse";
import type { Window } from "./range";

/** Actions of the entry for other components. */
export type EntryHandle = {
  /** Returns the conditions including the typed text, or `null` if the text is invalid, which the entry then reports. */
  commitText: () => readonly ParsedCondition[] | null;
};

/** Conditions of a search: a list to edit and remove them, and an entry with completion. */
export function ConditionEntry({
  conditions,
  fields,
  maxConditions,
  maxValues,
  window,
  onChange,
  onRun,
  ref,
}: {
  conditions: readonly ParsedCondition[];
  fields: readonly Field[];
  maxConditions: number;
  maxValues: number;
  /** Time range for suggested values. */
  window: Window | undefined;
  onChange: (conditions: readonly ParsedCondition[]) => void;
  onRun: () => void;
  ref: Ref<EntryHandle>;
}) {
  const combobox = useCombobox();
  const entry = useRef<HTMLInputElement>(null);
  const errorId = useId();
  const [text, setText] = useState("");
  const [editing, setEditing] = useState<number | null>(null);
  const [error, setError] = useState<string | null>(null);
  const stage = stageOf(text, fields);
  const fieldOptions = stage.kind === "field" ? matchingFields(stage.partial, fields) : [];
  const operatorOptions = stage.kind === "operator" ? matchingOperators(stage.field, stage.partial) : [];
  const values = useValueSuggestions(stage, window, combobox.dropdownOpened);

  // Enter selects the first matching field or operator. Of values, it selects only a highlighted one, because any text may be
  // intended.
  const selectsFirst = stage.kind === "operator" || (stage.kind === "field" && stage.partial !== "");
  const offeredNames = [...fieldOptions, ...operatorOptions].map((option) => option.name).join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: must run when other options are offered
  useEffect(() => {
    if (combobox.dropdownOpened && selectsFirst) {
      combobox.selectFirstOption();
    } else {
      combobox.resetSelectedOption();
    }
  }, [offeredNames, selectsFirst, stage.kind, text, combobox.dropdownOpened]);

  const changeText = (next: string) => {
    setText(next);
    setError(null);
    combobox.openDropdown();
  };

  /** Returns the conditions including the typed text and clears the entry, or `null` after reporting an error. */
  const withText = (newText: string): readonly ParsedCondition[] | null => {
    const next = addTypedConditions(conditions, editing, newText, fields, { maxConditions, maxValues });
    // The dropdown would cover the error.
    combobox.closeDropdown();
    if ("error" in next) {
      setText(newText);
      setError(next.error);
      return null;
    }
    setText("");
    setError(null);
    setEditing(null);
    return next.conditions;
  };

  const commit = (newText: string) => {
    const next = withText(newText);
    if (next !== null) {
      onChange(next);
    }
  };

  useImperativeHandle(ref, () => ({ commitText: () => (text.trim() === "" ? conditions : withText(text)) }));

  const remove = (index: number) => {
    onChange(conditions.filter((_, otherIndex) => otherIndex !== index));
    if (editing !== null) {
      setEditing(null);
      setText("");
    }
    setError(null);
    entry.current?.focus();
  };

  const edit = (index: number, parsed: ParsedCondition) => {
    setEditing(index);
    setText("condition" in parsed ? editText(parsed.condition) : parsed.text);
    setError("error" in parsed ? parsed.error : null);
    entry.current?.focus();
    combobox.openDropdown();
  };

  const selectOption = (option: string) => {
    const [kind, name] = [option.slice(0, 1), option.slice(1)];
    const before = text.slice(0, text.length - stage.partial.length);
    if (kind === "f") {
      changeText(`${before}${name} `);
    } else if (kind === "o" && stage.kind === "operator") {
      const operator = operatorOptions.find((candidate) => candidate.name === name);
      const next = `${/\s$/.test(before) ? before : `${before} `}${operator?.label ?? name}`;
      if (operator?.arity === "none") {
        commit(next);
      } else {
        changeText(`${next} `);
      }
    } else if (kind === "v" && stage.kind === "value") {
      const list = [...stage.values, name].map(quoteValue).join(", ");
      const next = `${text.slice(0, stage.start)}${stage.field.ref} ${stage.operator.label} ${list}`;
      if (stage.operator.arity === "list") {
        changeText(`${next}, `);
      } else {
        commit(next);
      }
    } else if (kind === "c") {
      commit(text);
    }
    entry.current?.focus();
  };

  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.nativeEvent.isComposing) {
      return;
    }
    const isOptionSelected = combobox.dropdownOpened && combobox.getSelectedOptionIndex() !== -1;
    if (event.key === "Enter" && !isOptionSelected) {
      event.preventDefault();
      if (text.trim() !== "") {
        commit(text);
      } else if (editing !== null) {
        remove(editing);
      } else {
        combobox.closeDropdown();
        onRun();
      }
    } else if (event.key === "Backspace" && text === "" && editing === null && conditions.length > 0) {
      event.preventDefault();
      remove(conditions.length - 1);
    } else if (event.key === "Escape" && !combobox.dropdownOpened) {
      if (editing !== null) {
        setEditing(null);
        setText("");
        setError(null);
      } else {
        entry.current?.blur();
      }
    }
  };

  const isComplete =
    stage.kind === "value" &&
    parseConditions(text, fields, maxValues).every((option) => "condition" in option);
  return (
    <Input.Wrapper
      error={error === null ? null : sanitize(error)}
      errorProps={{ id: errorId, role: "alert", size: "sm", c: "var(--tw-error)" }}
    >
      <Combobox
        store={combobox}
        onOptionSubmit={selectOption}
        position="bottom-start"
        width="min(680px, calc(100vw - 24px))"
        shadow="md"
      >
        <Combobox.DropdownTarget>
          <PillsInput
            data-has-error={error !== null || undefined}
            classNames={{ input: classes.inputBox ?? "" }}
            onClick={() => combobox.openDropdown()}
            rightSection={values.loading ? <Loader size={16} aria-label="Looking for values" /> : null}
          >
            <Pill.Group gap={6}>
              {conditions.map((parsed, index) => (
                <ConditionPill
                  // biome-ignore lint/suspicious/noArrayIndexKey: a condition is identified only by its position
                  key={index}
                  parsed={parsed}
                  isEdited={editing === index}
                  onEdit={() => edit(index, parsed)}
                  onRemove={() => remove(index)}
                />
              ))}
              <Combobox.EventsTarget withExpandedAttribute>
                <PillsInput.Field
                  ref={entry}
                  data-search-field
                  role="combobox"
                  aria-autocomplete="list"
                  aria-label={editing === null ? "Add a condition" : "Change the condition"}
                  aria-describedby={error === null ? undefined : errorId}
                  aria-invalid={error !== null}
                  className={classes.entry}
                  placeholder={
                    conditions.length === 0
                      ? "Add a condition: service = checkout  (press /)"
                      : "Add a condition"
                  }
                  value={text}
                  spellCheck={false}
                  autoCapitalize="off"
                  autoComplete="off"
                  onChange={(event) => changeText(event.currentTarget.value)}
                  onFocus={() => combobox.openDropdown()}
                  onBlur={() => combobox.closeDropdown()}
                  onKeyDown={onKeyDown}
                />
              </Combobox.EventsTarget>
            </Pill.Group>
          </PillsInput>
        </Combobox.DropdownTarget>
        <Combobox.Dropdown>
          <Combobox.Header>
            <Secondary size="xs">
              <StageHeading stage={stage} />
            </Secondary>
          </Combobox.Header>
          <Combobox.Options mah={320} style={{ overflowY: "auto" }} aria-label="Suggestions">
            {fieldOptions.map((field) => (
              <Combobox.Option key={field.ref} value={`f${field.ref}`} className={classes.option}>
                <span className={classes.code}>
                  <SanitizedText text={field.ref} />
                </span>
                <span className={classes.secondary}>{TYPE_LABELS[field.type]}</span>
              </Combobox.Option>
            ))}
            {operatorOptions.map((operator) => (
              <Combobox.Option key={operator.name} value={`o${operator.name}`} className={classes.option}>
                <span className={classes.code}>{operator.label}</span>
                <span className={classes.secondary}>{operator.meaning}</span>
              </Combobox.Option>
            ))}
            {isComplete && (
              <Combobox.Option value="c" className={classes.option}>
                <span>
                  Add{" "}
                  <span className={classes.code}>
                    <SanitizedText text={text.trim().replace(/,$/, "")} maxLength={200} />
                  </span>
                </span>
                <span className={classes.secondary}>Enter</span>
              </Combobox.Option>
            )}
            {values.options.map(({ value, count }) => (
              <Combobox.Option key={value} value={`v${value}`} className={classes.option}>
                <span className={classes.code}>
                  {value === "" ? <em>empty text</em> : <SanitizedText text={value} maxLength={160} />}
                </span>
                <span className={classes.secondary}>{count}</span>
              </Combobox.Option>
            ))}
            {fieldOptions.length + operatorOptions.length + values.options.length === 0 && !isComplete && (
              <Combobox.Empty>{noOptionText(stage, fields, values.loading)}</Combobox.Empty>
            )}
          </Combobox.Options>
          {values.note !== "" && (
            <Combobox.Footer>
              <Secondary size="xs">{values.note}</Secondary>
            </Combobox.Footer>
          )}
        </Combobox.Dropdown>
      </Combobox>
    </Input.Wrapper>
  );
}

function matchingOperators(field: Field, typed: string): Operator[] {
  const lower = typed.trim().toLowerCase();
  const rank = (a: Operator) => (a.spellings.includes(lower) ? 0 : 1);
  return operatorsOf(field)
    .filter((a) => a.spellings.some((word) => word.startsWith(lower)))
    .sort((a, b) => rank(a) - rank(b));
}

function StageHeading({ stage }: { stage: Stage }) {
  if (stage.kind === "field") {
    return "Fields: choose one, or type a whole condition";
  }
  return (
    <>
      {stage.kind === "operator"
        ? "Operator for "
        : stage.operator.arity === "list"
          ? "One or more values of "
          : "Value of "}
      <SanitizedText text={stage.field.ref} />
    </>
  );
}

function noOptionText(stage: Stage, fields: readonly Field[], loading: boolean): string {
  if (stage.kind === "field") {
    return fields.length === 0
      ? "No fields are marked for searching yet. An administrator marks them under “Trace source”."
      : "No matching field.";
  }
  if (stage.kind === "operator") {
    return `Use one of: ${operatorsOf(stage.field)
      .map((operator) => operator.label)
      .join(", ")}`;
  }
  if (stage.operator.arity === "two") {
    return "Type two numbers, such as 1, 10, then Enter.";
  }
  return stage.field.type === "number"
    ? "Type a number, then Enter."
    : loading
      ? "Looking for values…"
      : "Type a value, then Enter.";
}

function ConditionPill({
  parsed,
  isEdited,
  onEdit,
  onRemove,
}: {
  parsed: ParsedCondition;
  isEdited: boolean;
  onEdit: () => void;
  onRemove: () => void;
}) {
  const text = sanitize("condition" in parsed ? editText(parsed.condition) : parsed.text);
  return (
    <span
      className={classes.pill}
      data-has-error={"error" in parsed || undefined}
      data-editing={isEdited || undefined}
      title={"error" in parsed ? sanitize(parsed.error) : text.slice(0, 2_000)}
    >
      <button
        type="button"
        className={classes.edit}
        onClick={onEdit}
        aria-label={`Edit condition ${text.slice(0, 200)}`}
      >
        {"condition" in parsed ? (
          <ConditionText condition={parsed.condition} />
        ) : (
          <>
            <IconAlertTriangle size={14} aria-hidden /> <SanitizedText text={parsed.text} maxLength={80} />
          </>
        )}
      </button>
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

function ConditionText({ condition }: { condition: Condition }) {
  const values = displayValues(condition);
  return (
    <>
      <SanitizedText text={condition.field.ref} />{" "}
      <span className={classes.operator}>{condition.operator.label}</span>
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

type ValueSuggestions = { options: { value: string; count: string }[]; note: string; loading: boolean };

/** Suggested values for the value that is being typed. */
function useValueSuggestions(stage: Stage, window: Window | undefined, opened: boolean): ValueSuggestions {
  const valueStage = stage.kind === "value" ? stage : null;
  const [prefix] = useDebouncedValue(valueStage?.partial ?? "", 200);
  const hasText = valueStage?.field.type === "string" || valueStage?.field.type === "string_array";
  const ref = valueStage?.field.ref ?? "";
  const { data, isFetching, isError } = useQuery({
    queryKey: ["filter-values", ref, prefix, window],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/filter/values", {
          params: { query: { ref, limit: 20, ...(prefix === "" ? {} : { prefix }), ...window } },
          signal,
        }),
      ),
    enabled: opened && hasText && valueStage?.partial === prefix,
    staleTime: 60_000,
    retry: false,
  });
  if (valueStage === null) {
    return { options: [], note: "", loading: false };
  }
  if (valueStage.field.type === "boolean") {
    const options = ["true", "false"].filter((value) => value.startsWith(valueStage.partial.toLowerCase()));
    return { options: options.map((value) => ({ value, count: "" })), note: "", loading: false };
  }
  const loading = hasText && opened && (isFetching || valueStage.partial !== prefix);
  if (isError || data === undefined) {
    return {
      options: [],
      note: isError ? "Suggestions are unavailable at the moment. Type a value." : "",
      loading,
    };
  }
  const note = [
    data.complete ? "" : `Counted in the newest ${data.sampled_traces.toLocaleString("en")} traces.`,
    data.more ? "More values exist: type to find them." : "",
    data.unlisted > 0 ? `${data.unlisted} are too long to list.` : "",
  ];
  return {
    options: data.values
      .filter(({ value }) => value.startsWith(valueStage.partial) && !valueStage.values.includes(value))
      .map(({ value, traces }) => ({
        value,
        count: countOf(traces, "trace"),
      })),
    note: note.filter(Boolean).join(" "),
    loading,
  };
}
