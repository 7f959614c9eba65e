import { ActionIcon, Badge, Box, Checkbox, Group, NativeSelect, Table, Text, Tooltip } from "@mantine/core";
import { IconArrowBackUp, IconBan } from "@tabler/icons-react";
import { memo } from "react";
import { IconButton } from "../../components/IconButton";
import { Message } from "../../components/Message";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { formatShare } from "../../lib/numbers";
import { sanitize } from "../../lib/sanitize";
import { TYPE_LABELS } from "../../lib/types";
import { Examples } from "./Examples";
import { FieldName } from "./FieldName";
import {
  type Candidate,
  type FieldDifference,
  type Mark,
  type MarkedField,
  policyExclusionReason,
  sameMark,
} from "./fields";
import classes from "./source.module.css";

const STATE_LABELS = { marked: "New", changed: "Changed", unmarked: "No longer marked" } as const;

const SOURCE_LABELS = {
  column: "column",
  map_key: "map",
  nested_key_value: "two arrays",
  nested_keys_values: "two arrays",
  nested_names_values: "two arrays",
  keys_values: "two arrays",
  names_values: "two arrays",
  json_path: "JSON column",
} as const;

/** Location of the value in a row. */
function sourceText({ map, name }: Candidate, stored: MarkedField | undefined): string {
  const source = stored?.source ?? (map === "" ? "column" : "map_key");
  const adoptedColumn = stored?.column == null ? "" : `; policies: column ${stored.column}`;
  return `${SOURCE_LABELS[source]} ${map === "" ? name : map}${adoptedColumn}`;
}

type FieldRowProps = {
  candidate: Candidate;
  mark: Mark;
  difference: FieldDifference | undefined;
  errors: string[];
  /** The stored field, if any. */
  stored: MarkedField | undefined;
  sampled: boolean;
  /** Columns of the table that hold this key, and that policies could read instead of the map. */
  columns: string[];
  onChange: (candidate: Candidate, change: Partial<Mark>) => void;
  onUndo: (key: string) => void;
};

function Row({
  candidate,
  mark,
  difference,
  errors,
  stored,
  sampled,
  columns,
  onChange,
  onUndo,
}: FieldRowProps) {
  const { map, name, columnTypes, types, rows, sampledRows, examples } = candidate;
  const ref = sanitize(candidate.ref);
  const policyExclusion = policyExclusionReason(map, name, mark.type);
  const isMarked = mark.filterable || mark.policy;
  const adoptableColumns = [...new Set([...columns, ...(mark.column === null ? [] : [mark.column])])];
  const frequency =
    rows !== null ? formatShare(rows, sampledRows) : map === "" ? "every span" : "not in the sample";
  const type =
    types.length === 1 ? (
      <Text span size="sm">
        {TYPE_LABELS[mark.type]}
      </Text>
    ) : (
      <NativeSelect
        size="xs"
        w={118}
        aria-label={`Type of ${ref}`}
        value={mark.type}
        onChange={(event) => {
          const type = types.find((candidateType) => candidateType === event.currentTarget.value);
          if (type !== undefined) {
            onChange(candidate, { type });
          }
        }}
        data={types.map((value) => ({ value, label: TYPE_LABELS[value] }))}
      />
    );
  return (
    <Table.Tr className={errors.length > 0 ? classes.rejected : undefined} data-field={candidate.ref}>
      <Table.Td className={isMarked ? classes.marked : undefined}>
        <FieldName map={map} name={name} />
        {difference !== undefined && (
          <Group component="span" gap={2} display="inline-flex" ml="xs">
            <Badge size="sm" variant="light" color={difference.kind === "unmarked" ? "orange" : "brand"}>
              {STATE_LABELS[difference.kind]}
            </Badge>
            <IconButton tooltip="Undo" label={`Undo ${ref}`} size="xs" onClick={() => onUndo(candidate.key)}>
              <IconArrowBackUp size={14} aria-hidden />
            </IconButton>
          </Group>
        )}
        <Secondary size="xs">
          <SanitizedText text={columnTypes.slice(0, 4).join(", ")} maxLength={120} />
          {sampled && (
            <Text span inherit hiddenFrom="sm">
              {columnTypes.length > 0 && " · "}
              {frequency}
            </Text>
          )}
        </Secondary>
        <Text component="div" hiddenFrom="md" inherit>
          <Examples fieldRef={candidate.ref} values={examples} />
        </Text>
        <Box hiddenFrom="sm" mt={4}>
          {type}
        </Box>
        {mark.policy &&
          adoptableColumns.map((column) => (
            <Checkbox
              key={column}
              mt={4}
              size="xs"
              checked={mark.column === column}
              onChange={(event) =>
                onChange(candidate, { column: event.currentTarget.checked ? column : null })
              }
              label={
                <>
                  Policies read the column{" "}
                  <Text span inherit className={classes.name}>
                    <SanitizedText text={column} />
                  </Text>
                </>
              }
            />
          ))}
        {errors.map((text) => (
          <Text key={text} size="sm" className={classes.error} role="alert" mt={4}>
            <Message text={text} />
          </Text>
        ))}
      </Table.Td>
      {sampled ? (
        <>
          <Table.Td visibleFrom="sm" className={classes.number}>
            {rows === null ? (
              <Secondary>{frequency}</Secondary>
            ) : (
              <span
                title={`${rows.toLocaleString("en")} of ${sampledRows.toLocaleString("en")} sampled spans`}
              >
                {frequency}
              </span>
            )}
          </Table.Td>
          <Table.Td visibleFrom="md">
            <Examples fieldRef={candidate.ref} values={examples} />
          </Table.Td>
        </>
      ) : (
        <Table.Td visibleFrom="sm">
          <SanitizedText text={sourceText(candidate, stored)} maxLength={120} />
        </Table.Td>
      )}
      <Table.Td visibleFrom="sm">{type}</Table.Td>
      <Table.Td>
        <Checkbox
          aria-label={`${ref} searchable`}
          checked={mark.filterable}
          onChange={(event) => onChange(candidate, { filterable: event.currentTarget.checked })}
        />
      </Table.Td>
      <Table.Td>
        {policyExclusion === null ? (
          <Checkbox
            aria-label={`${ref} usable in policies`}
            checked={mark.policy}
            onChange={(event) => onChange(candidate, { policy: event.currentTarget.checked })}
          />
        ) : (
          // Not a disabled checkbox, which keyboard users could not focus to read the reason.
          <Tooltip
            label={policyExclusion}
            multiline
            w={260}
            events={{ hover: true, focus: true, touch: true }}
          >
            <ActionIcon
              size="sm"
              variant="transparent"
              color="gray"
              c="dimmed"
              aria-label={`${ref} not usable in policies: ${policyExclusion}`}
            >
              <IconBan size={16} aria-hidden />
            </ActionIcon>
          </Tooltip>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

/** A field with its settings. */
export const FieldRow = memo(
  Row,
  (before, after) =>
    before.candidate === after.candidate &&
    sameMark(before.mark, after.mark) &&
    before.difference?.kind === after.difference?.kind &&
    before.errors === after.errors &&
    before.stored === after.stored &&
    before.sampled === after.sampled &&
    before.columns === after.columns &&
    before.onChange === after.onChange,
);
