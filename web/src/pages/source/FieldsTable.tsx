import { Group, Table, Text, Tooltip, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconInfoCircle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { FieldRow } from "./FieldRow";
import type { Candidate } from "./fields";
import type { Order } from "./listing";
import classes from "./source.module.css";
import type { FieldChanges } from "./useFieldChanges";

const NONE: string[] = [];

/** Fields with their settings. */
export function FieldsTable({
  fields,
  edit,
  columnsOf,
  sampled,
  order,
  onOrder,
}: {
  fields: Candidate[];
  edit: FieldChanges;
  columnsOf: ReadonlyMap<string, string[]>;
  /** Whether the table was sampled, so that frequencies of fields are known. */
  sampled: boolean;
  order: Order;
  onOrder: (order: Order) => void;
}) {
  const differences = new Map(edit.diff.map((difference) => [difference.key, difference]));
  const sortable = (to: Order, label: string) => (
    <UnstyledButton className={classes.sort} onClick={() => onOrder(to)} title={`Sort by ${to}`}>
      {label}
      <IconArrowDown size={14} aria-hidden style={{ visibility: order === to ? "visible" : "hidden" }} />
    </UnstyledButton>
  );
  return (
    <div className={classes.scroll}>
      <Table verticalSpacing={6} aria-label="Fields">
        <Table.Thead>
          <Table.Tr>
            <Table.Th aria-sort={order === "name" ? "ascending" : "none"}>
              {sortable("name", "Field")}
            </Table.Th>
            {sampled ? (
              <>
                <Table.Th
                  visibleFrom="sm"
                  className={classes.number}
                  aria-sort={order === "frequency" ? "descending" : "none"}
                >
                  {sortable("frequency", "Seen on")}
                </Table.Th>
                <Table.Th visibleFrom="md">Examples</Table.Th>
              </>
            ) : (
              <Table.Th visibleFrom="sm">Read from</Table.Th>
            )}
            <Table.Th visibleFrom="sm">Type</Table.Th>
            <Table.Th>
              <Explained label="Searchable">Users and agents may search by it.</Explained>
            </Table.Th>
            <Table.Th>
              <Explained label="Usable in policies">
                Policies may use it to decide who sees a trace. Numbers cannot be used there.
              </Explained>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {fields.map((candidate) => (
            <FieldRow
              key={candidate.key}
              candidate={candidate}
              mark={edit.markOf(candidate)}
              difference={differences.get(candidate.key)}
              refused={edit.refusal?.byField.get(candidate.key) ?? NONE}
              stored={edit.stored.get(candidate.key)}
              sampled={sampled}
              columns={columnsOf.get(candidate.key) ?? NONE}
              onChange={edit.change}
              onUndo={edit.undo}
            />
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

function Explained({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Tooltip label={children} multiline w={240}>
      <Group gap={4} wrap="nowrap" component="span" display="inline-flex">
        {label}
        <Text span visibleFrom="sm" lh={0} c="var(--tw-quiet)">
          <IconInfoCircle size={14} aria-hidden />
        </Text>
      </Group>
    </Tooltip>
  );
}
