import { Combobox, Input, Loader, Pill, PillsInput, useCombobox } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, type Ref, useEffect, useId, useImperativeHandle, useRef, useState } from "react";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { sanitize } from "../../lib/sanitize";
import { TYPE_LABELS } from "../../lib/types";
import classes from "./ConditionEntry.module.css";
import { ConditionPill } from "./ConditionPill";
import { editText, type FilterTerm, operatorsOf, quoteValue } from "./conditions";
import { addTypedConditions } from "./entry";
import { type Field, matchingFields } from "./fields";
import type { Operator } from "./operators";
import { type ParsedTerm, parseConditions, type Stage, stageOf } from "./parse";
import type { Window } from "./range";
import { useValueSuggestions, useWordSuggestions, type WordOption } from "./suggestions";
import { pastedTraceId } from "./words";

/** Elements that take a pasted text themselves. */
const TEXT_INPUTS = "input:not([type=checkbox], [type=radio]), textarea, [contenteditable=true]";

/** Maximum of recent searches that are suggested. */
const MAX_RECENT = 5;

/** Actions of the entry for other components. */
export type EntryHandle = {
  /** Returns the conditions including the typed text, or `null` if the text is invalid, which the entry then reports. */
  commitText: () => readonly ParsedTerm[] | null;
};

/** Conditions of a search: a list to edit and remove them, and an entry with completion. */
export function ConditionEntry({
  conditions,
  fields,
  maxConditions,
  maxValues,
  window,
  recent,
  onChange,
  onRun,
  ref,
}: {
  conditions: readonly ParsedTerm[];
  fields: readonly Field[];
  maxConditions: number;
  maxValues: number;
  /** Time range for suggested values. */
  window: Window | undefined;
  /** Conditions of recent searches as text, newest first. */
  recent: readonly string[];
  onChange: (conditions: readonly ParsedTerm[]) => void;
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
  // While suggestions are shown, a later window must not replace them.
  const [shownWindow, setShownWindow] = useState(window);
  if (!combobox.dropdownOpened && shownWindow !== window) {
    setShownWindow(window);
  }
  const valueWindow = shownWindow ?? window;
  const values = useValueSuggestions(stage, valueWindow, combobox.dropdownOpened);
  const words = useWordSuggestions(stage, fields, valueWindow, combobox.dropdownOpened);
  const pastedId = pastedTraceId(text);
  const recentOptions = text === "" && conditions.length === 0 ? recent.slice(0, MAX_RECENT) : [];
  const navigate = useNavigate();
  /** Text entered before its suggestions arrived; the first suggestion is then used. */
  const [pendingText, setPendingText] = useState<string | null>(null);

  // Enter selects the first matching field or operator. Of values, it selects only a highlighted one, because any text may be
  // intended.
  const selectsFirst = stage.kind === "operator" || (stage.kind === "field" && stage.partial !== "");
  const offeredNames = [
    ...[...fieldOptions, ...operatorOptions].map((option) => option.name),
    ...words.options.map((option) => option.value),
  ].join(" ");
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
    setPendingText(null);
    setError(null);
    combobox.openDropdown();
  };

  /** Returns the conditions including the typed text and clears the entry, or `null` after reporting an error. */
  const withText = (newText: string): readonly ParsedTerm[] | null => {
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

  const toggleExclusion = (index: number, term: FilterTerm) => {
    setEditing(null);
    setText("");
    setError(null);
    const changed = { ...term, isExclusion: !term.isExclusion };
    onChange(conditions.with(index, { term: changed, text: editText(changed) }));
  };

  const edit = (index: number, parsed: ParsedTerm) => {
    setEditing(index);
    setPendingText(null);
    setText("term" in parsed ? editText(parsed.term) : parsed.text);
    setError("error" in parsed ? parsed.error : null);
    entry.current?.focus();
    combobox.openDropdown();
  };

  const addWord = ({ field, value }: WordOption) => {
    const next = `${text.slice(0, stage.start)}${field.ref} = ${quoteValue(value)}`;
    if (stage.isInGroup) {
      changeText(`${next} `);
    } else {
      commit(next);
    }
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: must run once the awaited suggestions have arrived
  useEffect(() => {
    if (pendingText !== null && pendingText === text && !words.loading) {
      setPendingText(null);
      const [first] = words.options;
      if (first === undefined) {
        commit(text);
      } else {
        addWord(first);
      }
    }
  }, [pendingText, text, words.loading]);

  const selectOption = (option: string) => {
    const [kind, name] = [option.slice(0, 1), option.slice(1)];
    const before = text.slice(0, text.length - stage.partial.length);
    if (kind === "f") {
      changeText(`${before}${name} `);
    } else if (kind === "o" && stage.kind === "operator") {
      const operator = operatorOptions.find((candidate) => candidate.name === name);
      const next = `${/\s$/.test(before) ? before : `${before} `}${operator?.label ?? name}`;
      if (operator?.arity === "none" && !stage.isInGroup) {
        commit(next);
      } else {
        changeText(`${next} `);
      }
    } else if (kind === "v" && stage.kind === "value") {
      const list = [...stage.values, name].map(quoteValue).join(", ");
      const next = `${text.slice(0, stage.start)}${stage.field.ref} ${stage.operator.label} ${list}`;
      if (stage.operator.arity === "list") {
        changeText(`${next}, `);
      } else if (stage.isInGroup) {
        changeText(`${next} `);
      } else {
        commit(next);
      }
    } else if (kind === "c") {
      commit(text);
    } else if (kind === "w") {
      const word = words.options[Number(name)];
      if (word !== undefined) {
        addWord(word);
      }
    } else if (kind === "r") {
      onChange(parseConditions(name, fields, maxValues));
      combobox.closeDropdown();
    } else if (kind === "t") {
      void navigate({ to: "/trace/$traceId", params: { traceId: name } });
    }
    entry.current?.focus();
  };

  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.nativeEvent.isComposing) {
      return;
    }
    if (event.key === "Escape") {
      setPendingText(null);
    }
    const isOptionSelected = combobox.dropdownOpened && combobox.getSelectedOptionIndex() !== -1;
    if (event.key === "Enter" && !isOptionSelected) {
      event.preventDefault();
      if (text.trim() !== "" && words.loading) {
        setPendingText(text);
      } else if (text.trim() !== "") {
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

  // biome-ignore lint/correctness/useExhaustiveDependencies: the handler is set once, and uses only what never changes
  useEffect(() => {
    const onPaste = (event: ClipboardEvent) => {
      const target = event.target instanceof Element ? event.target : null;
      // A dialog may cover the page after the session has ended.
      if (target?.closest(TEXT_INPUTS) != null || document.querySelector("[role=dialog]") !== null) {
        return;
      }
      const pasted = (event.clipboardData?.getData("text/plain") ?? "").replace(/\s+/g, " ").trim();
      const traceId = pastedTraceId(pasted);
      if (traceId !== null) {
        void navigate({ to: "/trace/$traceId", params: { traceId } });
      } else if (pasted !== "") {
        setText((typed) => (typed.trim() === "" ? pasted : `${typed.trimEnd()} ${pasted}`));
        setPendingText(null);
        setError(null);
        entry.current?.focus();
      } else {
        return;
      }
      event.preventDefault();
    };
    document.addEventListener("paste", onPaste);
    return () => document.removeEventListener("paste", onPaste);
  }, []);

  const isComplete =
    stage.kind === "value" && parseConditions(text, fields, maxValues).every((option) => "term" in option);
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
            rightSection={
              values.loading || words.loading ? <Loader size={16} aria-label="Looking for values" /> : null
            }
          >
            <Pill.Group gap={6}>
              {conditions.map((parsed, index) => (
                <ConditionPill
                  // biome-ignore lint/suspicious/noArrayIndexKey: a condition is identified only by its position
                  key={index}
                  parsed={parsed}
                  fields={fields}
                  isEdited={editing === index}
                  onEdit={() => edit(index, parsed)}
                  onToggleExclusion={(term) => toggleExclusion(index, term)}
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
                  onBlur={() => {
                    setPendingText(null);
                    combobox.closeDropdown();
                  }}
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
            {pastedId !== null && (
              <Combobox.Option value={`t${pastedId}`} className={classes.option}>
                <span>
                  Open trace{" "}
                  <span className={classes.code}>
                    <SanitizedText text={pastedId} maxLength={80} />
                  </span>
                </span>
                <span className={classes.secondary}>Enter</span>
              </Combobox.Option>
            )}
            <RecentOptions searches={recentOptions} />
            {words.isExact && <WordOptions options={words.options} />}
            {fieldOptions.map((field) => (
              <Combobox.Option key={field.ref} value={`f${field.ref}`} className={classes.option}>
                <span className={classes.code}>
                  <SanitizedText text={field.ref} />
                </span>
                <span className={classes.secondary}>{TYPE_LABELS[field.type]}</span>
              </Combobox.Option>
            ))}
            {!words.isExact && <WordOptions options={words.options} />}
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
            {[fieldOptions, operatorOptions, values.options, words.options, recentOptions].every(
              (list) => list.length === 0,
            ) &&
              pastedId === null &&
              !isComplete && (
                <Combobox.Empty>
                  {noOptionText(stage, fields, values.loading || words.loading)}
                </Combobox.Empty>
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

function RecentOptions({ searches }: { searches: readonly string[] }) {
  return searches.map((search) => (
    <Combobox.Option key={search} value={`r${search}`} className={classes.option}>
      <span className={classes.code}>
        <SanitizedText text={search} maxLength={160} />
      </span>
      <span className={classes.secondary}>recent search</span>
    </Combobox.Option>
  ));
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
    return stage.isInGroup
      ? "Fields: one span must satisfy all conditions in the brackets"
      : "Fields: choose one, or type a condition; not … excludes traces, (… and …) is for one span";
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
      : loading
        ? "Looking for values…"
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

function WordOptions({ options }: { options: readonly WordOption[] }) {
  return options.map(({ field, value, count }, index) => (
    <Combobox.Option key={`${field.ref} ${value}`} value={`w${index}`} className={classes.option}>
      <span className={classes.code}>
        <SanitizedText text={field.ref} /> <span className={classes.operator}>=</span>{" "}
        <SanitizedText text={value} maxLength={160} />
      </span>
      <span className={classes.secondary}>{count}</span>
    </Combobox.Option>
  ));
}
