import { Combobox, Input, Loader, Pill, PillsInput, Text, useCombobox } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconAlertTriangle, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, type Ref, useEffect, useId, useImperativeHandle, useRef, useState } from "react";
import { api, ask } from "../../api/client";
import { Visible } from "../../components/Visible";
import { visible } from "../../lib/visible";
import classes from "./ConditionEntry.module.css";
import { type Condition, editText, operatorsOf, quoted, shownValues } from "./conditions";
import { withTyped } from "./entry";
import { type Field, fieldsLike } from "./fields";
import type { Operator } from "./operators";
import { type Read, readConditions, type Stage, stageOf } from "./parse";
import type { Window } from "./range";

/** Actions of the entry for other components. */
export type EntryHandle = {
  /** Returns the conditions including the typed text, or `null` if the text is invalid, which the entry then reports. */
  take: () => readonly Read[] | null;
};

/** Conditions of a search: a list to edit and remove them, and an entry with completion. */
export function ConditionEntry({
  reads,
  fields,
  maxConditions,
  maxValues,
  window,
  onChange,
  onRun,
  ref,
}: {
  reads: readonly Read[];
  fields: readonly Field[];
  maxConditions: number;
  maxValues: number;
  /** Time range for suggested values. */
  window: Window | undefined;
  onChange: (reads: readonly Read[]) => void;
  onRun: () => void;
  ref: Ref<EntryHandle>;
}) {
  const combobox = useCombobox();
  const entry = useRef<HTMLInputElement>(null);
  const problemId = useId();
  const [text, setText] = useState("");
  const [editing, setEditing] = useState<number | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const stage = stageOf(text, fields);
  const fieldOptions = stage.at === "field" ? fieldsLike(stage.typed, fields) : [];
  const operatorOptions = stage.at === "operator" ? operatorsLike(stage.field, stage.typed) : [];
  const values = useValues(stage, window, combobox.dropdownOpened);

  // Enter selects the first matching field or operator. Of values, it selects only a highlighted one, because any text may be
  // intended.
  const first = stage.at === "operator" || (stage.at === "field" && stage.typed !== "");
  const offered = [...fieldOptions, ...operatorOptions].map((one) => one.name).join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: must run when other options are offered
  useEffect(() => {
    if (combobox.dropdownOpened && first) {
      combobox.selectFirstOption();
    } else {
      combobox.resetSelectedOption();
    }
  }, [offered, first, stage.at, text, combobox.dropdownOpened]);

  const change = (next: string) => {
    setText(next);
    setProblem(null);
    combobox.openDropdown();
  };

  /** Returns the conditions including the typed text and clears the entry, or `null` after reporting an error. */
  const taken = (whole: string): readonly Read[] | null => {
    const next = withTyped(reads, editing, whole, fields, { maxConditions, maxValues });
    // The dropdown would cover the error.
    combobox.closeDropdown();
    if ("problem" in next) {
      setText(whole);
      setProblem(next.problem);
      return null;
    }
    setText("");
    setProblem(null);
    setEditing(null);
    return next.reads;
  };

  const commit = (whole: string) => {
    const next = taken(whole);
    if (next !== null) {
      onChange(next);
    }
  };

  useImperativeHandle(ref, () => ({ take: () => (text.trim() === "" ? reads : taken(text)) }));

  const remove = (place: number) => {
    onChange(reads.filter((_, other) => other !== place));
    if (editing !== null) {
      setEditing(null);
      setText("");
    }
    setProblem(null);
    entry.current?.focus();
  };

  const edit = (place: number, read: Read) => {
    setEditing(place);
    setText("condition" in read ? editText(read.condition) : read.text);
    setProblem("problem" in read ? read.problem : null);
    entry.current?.focus();
    combobox.openDropdown();
  };

  const take = (option: string) => {
    const [kind, name] = [option.slice(0, 1), option.slice(1)];
    const before = text.slice(0, text.length - stage.typed.length);
    if (kind === "f") {
      change(`${before}${name} `);
    } else if (kind === "o" && stage.at === "operator") {
      const operator = operatorOptions.find((one) => one.name === name);
      const next = `${/\s$/.test(before) ? before : `${before} `}${operator?.label ?? name}`;
      if (operator?.arity === "none") {
        commit(next);
      } else {
        change(`${next} `);
      }
    } else if (kind === "v" && stage.at === "value") {
      const list = [...stage.values, name].map(quoted).join(", ");
      const next = `${text.slice(0, stage.start)}${stage.field.ref} ${stage.operator.label} ${list}`;
      if (stage.operator.arity === "list") {
        change(`${next}, `);
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
    const chosen = combobox.dropdownOpened && combobox.getSelectedOptionIndex() !== -1;
    if (event.key === "Enter" && !chosen) {
      event.preventDefault();
      if (text.trim() !== "") {
        commit(text);
      } else if (editing !== null) {
        remove(editing);
      } else {
        combobox.closeDropdown();
        onRun();
      }
    } else if (event.key === "Backspace" && text === "" && editing === null && reads.length > 0) {
      event.preventDefault();
      remove(reads.length - 1);
    } else if (event.key === "Escape" && !combobox.dropdownOpened) {
      if (editing !== null) {
        setEditing(null);
        setText("");
        setProblem(null);
      } else {
        entry.current?.blur();
      }
    }
  };

  const ready =
    stage.at === "value" && readConditions(text, fields, maxValues).every((one) => "condition" in one);
  return (
    <Input.Wrapper
      error={problem === null ? null : visible(problem)}
      errorProps={{ id: problemId, role: "alert", size: "sm", c: "var(--tw-error)" }}
    >
      <Combobox
        store={combobox}
        onOptionSubmit={take}
        position="bottom-start"
        width="min(680px, calc(100vw - 24px))"
        shadow="md"
      >
        <Combobox.DropdownTarget>
          <PillsInput
            data-wrong={problem !== null || undefined}
            classNames={{ input: classes.box ?? "" }}
            onClick={() => combobox.openDropdown()}
            rightSection={values.loading ? <Loader size={16} aria-label="Looking for values" /> : null}
          >
            <Pill.Group gap={6}>
              {reads.map((read, place) => (
                <Piece
                  // biome-ignore lint/suspicious/noArrayIndexKey: a condition is identified only by its position
                  key={place}
                  read={read}
                  editing={editing === place}
                  onEdit={() => edit(place, read)}
                  onRemove={() => remove(place)}
                />
              ))}
              <Combobox.EventsTarget withExpandedAttribute>
                <PillsInput.Field
                  ref={entry}
                  data-slash
                  role="combobox"
                  aria-autocomplete="list"
                  aria-label={editing === null ? "Add a condition" : "Change the condition"}
                  aria-describedby={problem === null ? undefined : problemId}
                  aria-invalid={problem !== null}
                  className={classes.entry}
                  placeholder={
                    reads.length === 0 ? "Add a condition: service = checkout  (press /)" : "Add a condition"
                  }
                  value={text}
                  spellCheck={false}
                  autoCapitalize="off"
                  autoComplete="off"
                  onChange={(event) => change(event.currentTarget.value)}
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
            <Text size="xs" c="var(--tw-quiet)">
              <Heading stage={stage} />
            </Text>
          </Combobox.Header>
          <Combobox.Options mah={320} style={{ overflowY: "auto" }} aria-label="Suggestions">
            {fieldOptions.map((field) => (
              <Combobox.Option key={field.ref} value={`f${field.ref}`} className={classes.option}>
                <span className={classes.code}>
                  <Visible text={field.ref} />
                </span>
                <span className={classes.quiet}>{TYPES[field.type]}</span>
              </Combobox.Option>
            ))}
            {operatorOptions.map((operator) => (
              <Combobox.Option key={operator.name} value={`o${operator.name}`} className={classes.option}>
                <span className={classes.code}>{operator.label}</span>
                <span className={classes.quiet}>{operator.meaning}</span>
              </Combobox.Option>
            ))}
            {ready && (
              <Combobox.Option value="c" className={classes.option}>
                <span>
                  Add{" "}
                  <span className={classes.code}>
                    <Visible text={text.trim().replace(/,$/, "")} most={200} />
                  </span>
                </span>
                <span className={classes.quiet}>Enter</span>
              </Combobox.Option>
            )}
            {values.options.map(({ value, count }) => (
              <Combobox.Option key={value} value={`v${value}`} className={classes.option}>
                <span className={classes.code}>
                  {value === "" ? <em>empty text</em> : <Visible text={value} most={160} />}
                </span>
                <span className={classes.quiet}>{count}</span>
              </Combobox.Option>
            ))}
            {fieldOptions.length + operatorOptions.length + values.options.length === 0 && !ready && (
              <Combobox.Empty>{nothingLike(stage, fields, values.loading)}</Combobox.Empty>
            )}
          </Combobox.Options>
          {values.note !== "" && (
            <Combobox.Footer>
              <Text size="xs" c="var(--tw-quiet)">
                {values.note}
              </Text>
            </Combobox.Footer>
          )}
        </Combobox.Dropdown>
      </Combobox>
    </Input.Wrapper>
  );
}

const TYPES = { string: "text", string_array: "list of text", boolean: "true or false", number: "number" };

function operatorsLike(field: Field, typed: string): Operator[] {
  const lower = typed.trim().toLowerCase();
  const rank = (one: Operator) => (one.words.includes(lower) ? 0 : 1);
  return operatorsOf(field)
    .filter((one) => one.words.some((word) => word.startsWith(lower)))
    .sort((one, other) => rank(one) - rank(other));
}

function Heading({ stage }: { stage: Stage }) {
  if (stage.at === "field") {
    return "Fields: choose one, or type a whole condition";
  }
  return (
    <>
      {stage.at === "operator"
        ? "How to compare "
        : stage.operator.arity === "list"
          ? "Values, one or more, of "
          : "Value of "}
      <Visible text={stage.field.ref} />
    </>
  );
}

function nothingLike(stage: Stage, fields: readonly Field[], loading: boolean): string {
  if (stage.at === "field") {
    return fields.length === 0
      ? "No fields are marked for searching yet. An administrator marks them under “Trace source”."
      : "No matching field.";
  }
  if (stage.at === "operator") {
    return `Use one of: ${operatorsOf(stage.field)
      .map((one) => one.label)
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

function Piece({
  read,
  editing,
  onEdit,
  onRemove,
}: {
  read: Read;
  editing: boolean;
  onEdit: () => void;
  onRemove: () => void;
}) {
  const text = visible("condition" in read ? editText(read.condition) : read.text);
  return (
    <span
      className={classes.piece}
      data-wrong={"problem" in read || undefined}
      data-editing={editing || undefined}
      title={"problem" in read ? visible(read.problem) : text.slice(0, 2_000)}
    >
      <button
        type="button"
        className={classes.edit}
        onClick={onEdit}
        aria-label={`Edit condition ${text.slice(0, 200)}`}
      >
        {"condition" in read ? (
          <Shown condition={read.condition} />
        ) : (
          <>
            <IconAlertTriangle size={14} aria-hidden /> <Visible text={read.text} most={80} />
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

const MOST_SHOWN = 4;

function Shown({ condition }: { condition: Condition }) {
  const values = shownValues(condition);
  return (
    <>
      <Visible text={condition.field.ref} />{" "}
      <span className={classes.operator}>{condition.operator.label}</span>
      {values.slice(0, MOST_SHOWN).map((value, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: values of a condition are identified only by their position
        <span key={place}>
          {place === 0 ? " " : condition.operator.arity === "two" ? " and " : ", "}
          <b>{value === "" ? '""' : <Visible text={value} most={60} />}</b>
        </span>
      ))}
      {values.length > MOST_SHOWN && ` and ${values.length - MOST_SHOWN} more`}
    </>
  );
}

type Values = { options: { value: string; count: string }[]; note: string; loading: boolean };

/** Suggested values for the value that is being typed. */
function useValues(stage: Stage, window: Window | undefined, opened: boolean): Values {
  const open = stage.at === "value" ? stage : null;
  const [prefix] = useDebouncedValue(open?.typed ?? "", 200);
  const listed = open?.field.type === "string" || open?.field.type === "string_array";
  const ref = open?.field.ref ?? "";
  const { data, isFetching, isError } = useQuery({
    queryKey: ["filter-values", ref, prefix, window],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/filter/values", {
          params: { query: { ref, limit: 20, ...(prefix === "" ? {} : { prefix }), ...window } },
          signal,
        }),
      ),
    enabled: opened && listed && open?.typed === prefix,
    staleTime: 60_000,
    retry: false,
  });
  if (open === null) {
    return { options: [], note: "", loading: false };
  }
  if (open.field.type === "boolean") {
    const options = ["true", "false"].filter((value) => value.startsWith(open.typed.toLowerCase()));
    return { options: options.map((value) => ({ value, count: "" })), note: "", loading: false };
  }
  const loading = listed && opened && (isFetching || open.typed !== prefix);
  if (isError || data === undefined) {
    return { options: [], note: isError ? "Values cannot be offered at the moment; type one." : "", loading };
  }
  const note = [
    data.complete ? "" : `Counts are of the newest ${data.sampled_traces.toLocaleString("en")} traces.`,
    data.more ? "There are more values: type to see them." : "",
    data.unlisted > 0 ? `${data.unlisted} too long to be listed.` : "",
  ];
  return {
    options: data.values
      .filter(({ value }) => value.startsWith(open.typed) && !open.values.includes(value))
      .map(({ value, traces }) => ({
        value,
        count: `${traces.toLocaleString("en")} ${traces === 1 ? "trace" : "traces"}`,
      })),
    note: note.filter(Boolean).join(" "),
    loading,
  };
}
