import { Group, Stack, Table, Text } from "@mantine/core";
import type { Api } from "../../api/client";
import { ButtonLink } from "../../components/links";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { DISPLAYED_COLUMNS, STRUCTURAL_COLUMNS } from "./columns";
import classes from "./source.module.css";

/** The column with the unit of its integers, or with the values that count as errors. */
function withUnit(column: string | null, member: string, binding: Api["Binding"]): string | null {
  const { timestamp_unit, display } = binding;
  const detail =
    member === "timestamp"
      ? timestamp_unit
      : member === "duration"
        ? display?.duration_unit
        : member === "status"
          ? display?.error_values?.join(", ")
          : undefined;
  return column === null || detail == null || detail === "" ? column : `${column} (${detail})`;
}

/** The bound table, and the purpose of its columns. */
export function BindingView({ binding, version }: { binding: Api["Binding"]; version: number }) {
  const { database, table } = binding;
  const rows = [
    ...STRUCTURAL_COLUMNS.map(({ member, label, purpose }) => ({
      label,
      purpose,
      column: withUnit(binding[member], member, binding),
    })),
    ...DISPLAYED_COLUMNS.map(({ member, label, purpose }) => ({
      label,
      purpose,
      column: withUnit(binding.display?.[member] ?? null, member, binding),
    })),
    {
      label: "Trace index",
      purpose: "A table with the first and last time of each trace: whole traces are found faster.",
      column: binding.trace_index ?? null,
    },
    ...(binding.read_as === undefined
      ? []
      : [
          {
            label: "Replaced rows",
            purpose: "Whether rows that were replaced or deleted are read.",
            column: binding.read_as === "final" ? "never shown (FINAL)" : "shown until they are merged",
          },
        ]),
    ...(binding.only ?? []).map(({ column, value }) => ({
      label: "Only rows with",
      purpose: "Rows with another value are never read.",
      column: `${column} = ${value}`,
    })),
    ...(binding.time_bucket == null
      ? []
      : [
          {
            label: "Time bucket",
            purpose: "Start of each span's bucket of time, which searches use.",
            column: `${binding.time_bucket.column}, ${binding.time_bucket.seconds} seconds`,
          },
        ]),
  ];
  return (
    <Stack gap="md" maw={860}>
      <Group justify="space-between" gap="sm">
        <Text>
          Spans are read from{" "}
          <Text span inherit className={classes.name} fw={600}>
            <SanitizedText text={`${database}.${table}`} />
          </Text>{" "}
          as of version {version}.
        </Text>
        <Group gap="xs">
          <ButtonLink
            to="/source/setup"
            search={{ step: "columns", database, table }}
            size="xs"
            variant="default"
          >
            Change columns
          </ButtonLink>
          <ButtonLink to="/source/setup" search={{ step: "table" }} size="xs" variant="default">
            Change table
          </ButtonLink>
        </Group>
      </Group>
      <div className={classes.scroll}>
        <Table verticalSpacing="xs" aria-label="Columns of the binding">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Name</Table.Th>
              <Table.Th>Column</Table.Th>
              <Table.Th visibleFrom="sm">Purpose</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map(({ label, purpose, column }) => (
              <Table.Tr key={label}>
                <Table.Td style={{ whiteSpace: "nowrap" }}>{label}</Table.Td>
                <Table.Td className={column === null ? classes.secondary : classes.name}>
                  {column === null ? "none" : <SanitizedText text={column} />}
                </Table.Td>
                <Table.Td visibleFrom="sm">
                  <Secondary size="sm">{purpose}</Secondary>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
    </Stack>
  );
}
