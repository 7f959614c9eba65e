import { Group, Table, Text, Tooltip, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconInfoCircle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { FieldRow } from "./FieldRow";
import type { Candidate } from "./fields";
import type { SortOrder } from "./listing";
import classes from "./source.module.css";
import type { FieldChanges } from "./useFieldChanges";

const NO_VALUES: string[] = [];

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
  order: SortOrder;
  onOrder: (order: SortOrder) => void;
}) {
  const differences = new Map(edit.diff.map((difference) => [difference.key, difference]));
  const sortButton = (sortOrder: SortOrder, label: string) => (
    <UnstyledButton
      className={classes.sort}
      onClick={() => onOrder(sortOrder)}
      title={`Sort by ${sortOrder}`}
    >
      {label}
      <IconArrowDown
        size={14}
        aria-hidden
        style={{ visibility: order === sortOrder ? "visible" : "hidden" }}
      />
    </UnstyledButton>
  );
  return (
    <div className={classes.scroll}>
      <Table verticalSpacing={6} aria-label="Fields">
        <Table.Thead>
          <Table.Tr>
            <Table.Th aria-sort={order === "name" ? "ascending" : "none"}>
              {sortButton("name", "Field")}
            </Table.Th>
            {sampled ? (
              <>
                <Table.Th
                  visibleFrom="sm"
                  className={classes.number}
                  aria-sort={order === "frequency" ? "descending" : "none"}
                >
                  {sortButton("frequency", "Seen on")}
                </Table.Th>
                <Table.Th visibleFrom="md">Examples</Table.Th>
              </>
            ) : (
              <Table.Th visibleFrom="sm">Read from</Table.Th>
            )}
            <Table.Th visibleFrom="sm">Type</Table.Th>
            <Table.Th>
              <LabelWithTooltip label="Searchable">Users and agents may search by it.</LabelWithTooltip>
            </Table.Th>
            <Table.Th>
              <LabelWithTooltip label="Usable in policies">
                Policies may use it to decide who sees a trace. Numbers cannot be used there.
              </LabelWithTooltip>
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
              errors={edit.rejection?.byField.get(candidate.key) ?? NO_VALUES}
              stored={edit.stored.get(candidate.key)}
              sampled={sampled}
              columns={columnsOf.get(candidate.key) ?? NO_VALUES}
              onChange={edit.change}
              onUndo={edit.undo}
            />
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

function LabelWithTooltip({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Tooltip label={children} multiline w={240}>
      <Group gap={4} wrap="nowrap" component="span" display="inline-flex">
        {label}
        <Text span visibleFrom="sm" lh={0} c="dimmed">
          <IconInfoCircle size={14} aria-hidden />
        </Text>
      </Group>
    </Tooltip>
  );
}
