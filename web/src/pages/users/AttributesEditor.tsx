import { Button, Fieldset, Select, Switch, TagsInput, Text, Textarea, TextInput } from "@mantine/core";
import { IconPlus, IconX } from "@tabler/icons-react";
import { IconButton } from "../../components/IconButton";
import { renderValuePill } from "../../components/renderValuePill";
import { sanitize } from "../../lib/sanitize";
import classes from "./AttributesEditor.module.css";
import { type AttributeKind, type AttributeRow, nameErrors, newRow } from "./attributes";

const KIND_OPTIONS: { value: AttributeKind; label: string }[] = [
  { value: "string", label: "Text" },
  { value: "list", label: "List of texts" },
  { value: "boolean", label: "Yes or no" },
];

const FIELDSET_STYLES = {
  root: { padding: 0, margin: 0 },
  legend: { padding: 0, fontSize: "var(--mantine-font-size-sm)", fontWeight: 500 },
};

/** Editor of user attributes with values of three kinds, which policies read as `user.attributes`. */
export function AttributesEditor({
  rows,
  onChange,
  showErrors,
}: {
  rows: readonly AttributeRow[];
  /** Takes an updater function, because one key press can change a row twice. */
  onChange: (update: (rows: readonly AttributeRow[]) => AttributeRow[]) => void;
  /** Whether missing names are reported. */
  showErrors: boolean;
}) {
  const errors = nameErrors(rows);
  const change = (id: number, changes: Partial<AttributeRow>) =>
    onChange((rows) => rows.map((row) => (row.id === id ? { ...row, ...changes } : row)));
  return (
    <Fieldset legend="Attributes" variant="unstyled" styles={FIELDSET_STYLES}>
      <Text size="xs" c="dimmed" mb="xs">
        Policies read them, as in <code>user.attributes.team</code>.
      </Text>
      {rows.map((row) => {
        const error = errors.get(row.id);
        const accessibleName = row.name === "" ? "the new attribute" : sanitize(row.name);
        return (
          <div key={row.id} className={classes.row}>
            <TextInput
              aria-label={`Name of ${accessibleName}`}
              placeholder="Name, such as team"
              autoComplete="off"
              spellCheck={false}
              value={row.name}
              error={error !== undefined && (showErrors || row.name !== "") ? error : null}
              onChange={(event) => change(row.id, { name: event.currentTarget.value })}
            />
            <Select
              aria-label={`Kind of ${accessibleName}`}
              data={KIND_OPTIONS}
              value={row.kind}
              allowDeselect={false}
              onChange={(kind) => kind !== null && change(row.id, { kind })}
            />
            <ValueInput
              row={row}
              attributeName={accessibleName}
              onChange={(changes) => change(row.id, changes)}
            />
            <IconButton
              tooltip="Remove"
              label={`Remove ${accessibleName}`}
              className={classes.remove}
              size="lg"
              onClick={() => onChange((rows) => rows.filter((other) => other.id !== row.id))}
            >
              <IconX size={16} aria-hidden />
            </IconButton>
          </div>
        );
      })}
      <Button
        size="xs"
        variant="default"
        leftSection={<IconPlus size={14} aria-hidden />}
        onClick={() => onChange((rows) => [...rows, newRow()])}
      >
        Add attribute
      </Button>
    </Fieldset>
  );
}

function ValueInput({
  row,
  attributeName,
  onChange,
}: {
  row: AttributeRow;
  attributeName: string;
  onChange: (changes: Partial<AttributeRow>) => void;
}) {
  const label = `Value of ${attributeName}`;
  switch (row.kind) {
    case "boolean":
      return (
        <Switch
          className={classes.flag}
          aria-label={label}
          label={row.flag ? "Yes" : "No"}
          checked={row.flag}
          onChange={(event) => onChange({ flag: event.currentTarget.checked })}
        />
      );
    case "string":
      // A text area only for text with several lines: a single-line input would drop its line feeds.
      return row.text.includes("\n") ? (
        <Textarea
          aria-label={label}
          autosize
          maxRows={6}
          value={row.text}
          onChange={(event) => onChange({ text: event.currentTarget.value })}
        />
      ) : (
        <TextInput
          aria-label={label}
          placeholder="Value"
          autoComplete="off"
          value={row.text}
          onChange={(event) => onChange({ text: event.currentTarget.value })}
        />
      );
    case "list":
      return (
        <TagsInput
          aria-label={label}
          placeholder={row.list.length === 0 ? "Value, then Enter" : ""}
          // Values may contain commas, so that only lines separate values.
          splitChars={["\n"]}
          value={[...row.list]}
          onChange={(list) => onChange({ list })}
          // Not added when the input loses the focus: the list would grow and move the button that the user is about to click.
          acceptValueOnBlur={false}
          searchValue={row.pendingText}
          onSearchChange={(pendingText) => onChange({ pendingText })}
          renderPill={renderValuePill}
        />
      );
  }
}
