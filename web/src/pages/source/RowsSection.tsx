import { Button, Group, NativeSelect, Radio, Select, Stack, Text, TextInput, Title } from "@mantine/core";
import type { Api } from "../../api/client";
import { sanitize } from "../../lib/sanitize";
import { type BindingDraft, replacesRows } from "./columns";
import classes from "./source.module.css";

/** Which rows of the table are spans: of engines that replace rows, of tables that several tenants share. */
export function RowsSection({
  engine,
  columns,
  draft,
  errors,
  onChange,
}: {
  engine: string;
  columns: Api["TableColumn"][];
  draft: BindingDraft;
  /** Errors of the service by member. */
  errors: ReadonlyMap<string, string>;
  onChange: (changed: Partial<BindingDraft>) => void;
}) {
  const isChoiceRequired = replacesRows(engine);
  // The tables behind these engines may replace rows.
  const isChoicePossible = isChoiceRequired || ["Distributed", "Merge"].includes(engine);
  const names = columns.map(({ name }) => ({ value: name, label: sanitize(name) }));
  const setOnly = (index: number, changed: Partial<Api["ColumnValue"]>) =>
    onChange({ only: draft.only.map((entry, at) => (at === index ? { ...entry, ...changed } : entry)) });
  return (
    <section aria-labelledby="rows">
      <Title order={3} id="rows" mb={4}>
        Rows
      </Title>
      <Stack gap="md">
        {isChoicePossible && (
          <Radio.Group
            label="Rows that were replaced or deleted"
            description={
              isChoiceRequired
                ? `The engine ${engine} keeps them until it merges its parts.`
                : `Choose if the tables behind this ${engine} table replace or collapse rows.`
            }
            value={draft.read_as}
            onChange={(value) => onChange({ read_as: value === "final" || value === "as_is" ? value : "" })}
            error={errors.get("/read_as")}
            required={isChoiceRequired}
          >
            <Stack gap={6} mt={6}>
              <Radio value="final" label="Are never shown (FINAL)" />
              <Radio
                value="as_is"
                label="Are shown until they are merged, which is faster. Deleted spans stay visible until then."
              />
              {!isChoiceRequired && <Radio value="" label="There are none" />}
            </Stack>
          </Radio.Group>
        )}
        <Stack gap="xs">
          <Text size="sm" fw={500}>
            Only rows with these values
          </Text>
          <Text size="xs" c="dimmed">
            For a table that several tenants or projects share. Rows with other values are never read.
          </Text>
          {draft.only.map((entry, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the entries have no other identity
            <Group key={index} gap="xs" align="flex-end">
              <Select
                label="Column"
                searchable
                data={names}
                value={entry.column || null}
                onChange={(column) => setOnly(index, { column: column ?? "" })}
              />
              <TextInput
                label="Value"
                value={entry.value}
                onChange={(event) => setOnly(index, { value: event.currentTarget.value })}
              />
              <Button
                variant="default"
                onClick={() => onChange({ only: draft.only.filter((_, at) => at !== index) })}
                aria-label={`Remove the condition ${index + 1}`}
              >
                Remove
              </Button>
            </Group>
          ))}
          {errors.has("/only") && (
            <Text size="xs" c="red" role="alert">
              {errors.get("/only")}
            </Text>
          )}
          <Group>
            <Button
              size="xs"
              variant="default"
              onClick={() => onChange({ only: [...draft.only, { column: "", value: "" }] })}
            >
              Add a value
            </Button>
          </Group>
        </Stack>
        <div className={classes.columns}>
          <Select
            label="Time bucket"
            description="Column with the start of each span's bucket of time. Searches are faster if it is in the sorting key."
            placeholder="None"
            searchable
            clearable
            data={names}
            value={draft.time_bucket || null}
            onChange={(column) => onChange({ time_bucket: column ?? "" })}
            error={errors.get("/time_bucket")}
          />
          {draft.time_bucket !== "" && (
            <NativeSelect
              label="Length of a bucket"
              description="Every span is compared with its bucket before the table is bound."
              value={String(draft.bucket_seconds)}
              onChange={(event) => onChange({ bucket_seconds: Number(event.currentTarget.value) })}
              data={bucketLengths(draft.bucket_seconds)}
            />
          )}
        </div>
      </Stack>
    </section>
  );
}

const LENGTHS = [
  [60, "1 minute"],
  [300, "5 minutes"],
  [600, "10 minutes"],
  [900, "15 minutes"],
  [1_800, "30 minutes"],
  [3_600, "1 hour"],
  [7_200, "2 hours"],
  [14_400, "4 hours"],
  [21_600, "6 hours"],
  [43_200, "12 hours"],
  [86_400, "1 day"],
] as const;

/** Lengths to choose from, with the current one. */
function bucketLengths(current: number): { value: string; label: string }[] {
  const known = LENGTHS.map(([seconds, label]) => ({ value: String(seconds), label }));
  return known.some(({ value }) => value === String(current))
    ? known
    : [{ value: String(current), label: `${current} seconds` }, ...known];
}
