import { ActionIcon, Badge, Box, Checkbox, Group, NativeSelect, Table, Text, Tooltip } from "@mantine/core";
import { IconArrowBackUp, IconBan } from "@tabler/icons-react";
import { memo } from "react";
import { Message } from "../../components/Message";
import { Visible } from "../../components/Visible";
import { visible } from "../../lib/visible";
import { Examples } from "./Examples";
import { FieldName } from "./FieldName";
import {
  type Candidate,
  type Difference,
  type Mark,
  type MarkedField,
  sameMark,
  TYPE_LABELS,
  whyNoPolicy,
} from "./fields";
import { formatShare } from "./numbers";
import classes from "./source.module.css";

const STATES = { marked: "New", changed: "Changed", unmarked: "No longer marked" } as const;

const SOURCES = { column: "column", map_key: "map", json_path: "JSON column" } as const;

/** Location of the value in a row. */
function readFrom({ map, name }: Candidate, stored: MarkedField | undefined): string {
  const source = stored?.source ?? (map === "" ? "column" : "map_key");
  const adopted = stored?.column == null ? "" : `; policies: column ${stored.column}`;
  return `${SOURCES[source]} ${map === "" ? name : map}${adopted}`;
}

type Props = {
  candidate: Candidate;
  mark: Mark;
  difference: Difference | undefined;
  refused: string[];
  /** The stored field, if any. */
  stored: MarkedField | undefined;
  sampled: boolean;
  /** Columns of the table that hold this key, and that policies could read instead of the map. */
  columns: string[];
  onChange: (candidate: Candidate, change: Partial<Mark>) => void;
  onUndo: (key: string) => void;
};

function Row({ candidate, mark, difference, refused, stored, sampled, columns, onChange, onUndo }: Props) {
  const { map, name, storeTypes, types, rows, sampledRows, examples } = candidate;
  const ref = visible(candidate.ref);
  const noPolicy = whyNoPolicy(map, name, mark.type);
  const isMarked = mark.filterable || mark.policy;
  const adoptable = [...new Set([...columns, ...(mark.column === null ? [] : [mark.column])])];
  const seen =
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
          const type = types.find((one) => one === event.currentTarget.value);
          if (type !== undefined) {
            onChange(candidate, { type });
          }
        }}
        data={types.map((value) => ({ value, label: TYPE_LABELS[value] }))}
      />
    );
  return (
    <Table.Tr className={refused.length > 0 ? classes.refused : undefined} data-field={candidate.ref}>
      <Table.Td className={isMarked ? classes.marked : undefined}>
        <FieldName map={map} name={name} />
        {difference !== undefined && (
          <Group component="span" gap={2} display="inline-flex" ml="xs">
            <Badge
              size="sm"
              variant="light"
              color={difference.kind === "unmarked" ? "orange" : "brand"}
              tt="none"
            >
              {STATES[difference.kind]}
            </Badge>
            <Tooltip label="Undo">
              <ActionIcon
                size="xs"
                variant="subtle"
                color="gray"
                onClick={() => onUndo(candidate.key)}
                aria-label={`Undo ${ref}`}
              >
                <IconArrowBackUp size={14} aria-hidden />
              </ActionIcon>
            </Tooltip>
          </Group>
        )}
        <Text size="xs" c="var(--tw-quiet)">
          <Visible text={storeTypes.slice(0, 4).join(", ")} most={120} />
          {sampled && (
            <Text span inherit hiddenFrom="sm">
              {storeTypes.length > 0 && " · "}
              {seen}
            </Text>
          )}
        </Text>
        <Text component="div" hiddenFrom="md" inherit>
          <Examples of={candidate.ref} values={examples} />
        </Text>
        <Box hiddenFrom="sm" mt={4}>
          {type}
        </Box>
        {mark.policy &&
          adoptable.map((column) => (
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
                    <Visible text={column} />
                  </Text>
                </>
              }
            />
          ))}
        {refused.map((text) => (
          <Text key={text} size="sm" className={classes.error} role="alert" mt={4}>
            <Message text={text} />
          </Text>
        ))}
      </Table.Td>
      {sampled ? (
        <>
          <Table.Td visibleFrom="sm" className={classes.number}>
            {rows === null ? (
              <Text span inherit c="var(--tw-quiet)">
                {seen}
              </Text>
            ) : (
              <span
                title={`${rows.toLocaleString("en")} of ${sampledRows.toLocaleString("en")} sampled spans`}
              >
                {seen}
              </span>
            )}
          </Table.Td>
          <Table.Td visibleFrom="md">
            <Examples of={candidate.ref} values={examples} />
          </Table.Td>
        </>
      ) : (
        <Table.Td visibleFrom="sm">
          <Visible text={readFrom(candidate, stored)} most={120} />
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
        {noPolicy === null ? (
          <Checkbox
            aria-label={`${ref} usable in policies`}
            checked={mark.policy}
            onChange={(event) => onChange(candidate, { policy: event.currentTarget.checked })}
          />
        ) : (
          // Not a disabled checkbox, which keyboard users could not focus to read the reason.
          <Tooltip label={noPolicy} multiline w={260} events={{ hover: true, focus: true, touch: true }}>
            <ActionIcon
              size="sm"
              variant="transparent"
              color="gray"
              c="var(--tw-quiet)"
              aria-label={`${ref} not usable in policies: ${noPolicy}`}
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
    before.refused === after.refused &&
    before.stored === after.stored &&
    before.sampled === after.sampled &&
    before.columns === after.columns &&
    before.onChange === after.onChange,
);
