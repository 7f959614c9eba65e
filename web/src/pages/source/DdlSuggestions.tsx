import { Accordion, Badge, Button, Group, Stack, Table, Text, Title } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Api } from "../../api/client";
import { CopyButton } from "../../components/CopyButton";
import { EmptyState } from "../../components/EmptyState";
import { MessageList } from "../../components/MessageList";
import { Notice } from "../../components/Notice";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { formatBytes, formatCount, formatGain, formatRanges } from "../../lib/numbers";
import { refOf } from "./fields";
import { ddlQuery } from "./queries";
import classes from "./source.module.css";

type Suggestion = Api["DdlSuggestion"];

const KIND_LABELS: Record<string, string> = {
  key_column: "Key column",
  time_projection: "Projection by time",
  trace_projection: "Projection by trace",
  trace_index: "Trace index",
  skip_index: "Skip index",
};

const STATE_LABELS: Record<string, string> = {
  partial: "Partly in place",
  building: "Being built",
};

/** Statements as a script that runs unchanged. */
export function toScript(suggestions: Suggestion[]): string {
  return suggestions
    .filter(({ statements }) => statements.length > 0)
    .map(({ number, speeds_up, statements }) => {
      const comment = `-- ${number}. ${speeds_up.replace(/\s+/g, " ")}`;
      return [comment, ...statements.map((statement) => `${statement};`)].join("\n");
    })
    .join("\n\n");
}

/** Suggested additions to the table that make searches cheaper. */
export function DdlSuggestions() {
  const query = useQuery(ddlQuery);
  const { data, error, refetch, isFetching } = query;
  if (error !== null || data === undefined) {
    return (
      <QueryPlaceholder
        query={query}
        label="suggestions"
        height={260}
        errorTitle="The suggestions could not be loaded"
      />
    );
  }
  const runnable = data.suggestions.filter(({ statements }) => statements.length > 0);
  return (
    <Stack gap="md">
      <Group justify="space-between" align="start" gap="sm">
        <Text maw={720}>
          These statements are optional and make searches faster. Tracewarden never runs them: it only reads
          from ClickHouse. Give them to the administrator of the table, or run them yourself; additions are
          used within a minute.
        </Text>
        <Group gap="xs">
          <Button size="xs" variant="default" loading={isFetching} onClick={() => void refetch()}>
            Refresh
          </Button>
          {runnable.length > 0 && (
            <CopyButton
              value={toScript(data.suggestions)}
              name="all statements"
              label="Copy all statements"
            />
          )}
        </Group>
      </Group>
      {data.notes.length > 0 && (
        <Notice kind="info" title="Missing information">
          <MessageList messages={data.notes} />
        </Notice>
      )}
      {data.suggestions.length === 0 ? (
        <EmptyState title="Nothing to add" icon={<IconCheck size={32} aria-hidden />}>
          All suggestions for the marked fields are in place. Refresh after marking more.
        </EmptyState>
      ) : (
        <Accordion multiple variant="separated" order={3}>
          {data.suggestions.map((suggestion) => (
            <SuggestionItem key={suggestion.id} suggestion={suggestion} suggestions={data.suggestions} />
          ))}
        </Accordion>
      )}
      {data.in_place.length > 0 && <ExistingStructures structures={data.in_place} />}
    </Stack>
  );
}

function headline({ kind, fields }: Suggestion): string {
  const [field] = fields;
  return kind === "key_column" && field !== undefined && fields.length === 1
    ? `Key column for ${refOf(field.map, field.name)}`
    : (KIND_LABELS[kind] ?? kind);
}

/** Description of the improvement. It replaces the service's text where that refers to its API. */
function gainText({ kind, speeds_up }: Suggestion): string {
  if (kind === "key_column") {
    const adoptText = speeds_up.includes("adopted")
      ? " Policies use it after you adopt it under Trace source, Fields."
      : "";
    return `Searches by this key read one small column instead of the whole map.${adoptText}`;
  }
  return `${speeds_up.charAt(0).toUpperCase()}${speeds_up.slice(1)}`;
}

function costText({ reads_before, reads_after, disk_bytes }: Suggestion): string {
  const reads =
    reads_before?.bytes != null && reads_after?.bytes != null
      ? `reads ${formatBytes(reads_after.bytes)} instead of ${formatBytes(reads_before.bytes)}`
      : "";
  const disk = disk_bytes == null ? "" : `takes ${formatBytes(disk_bytes)} of disk`;
  return [reads, disk].filter((part) => part !== "").join(", ");
}

function SuggestionItem({ suggestion, suggestions }: { suggestion: Suggestion; suggestions: Suggestion[] }) {
  const { id, number, state, gain, disk_bytes } = suggestion;
  const requiredNumbers = suggestion.needs.flatMap(
    (need) => suggestions.find((other) => other.id === need)?.number ?? [],
  );
  return (
    <Accordion.Item value={id}>
      <Accordion.Control>
        <Group gap="md" wrap="nowrap" align="center">
          <Text span className={classes.gain} aria-label={gain == null ? "gain unknown" : undefined}>
            {gain == null ? "–" : `reads ${formatGain(gain)} less`}
          </Text>
          <div>
            <Group gap="xs">
              <Text fw={600}>
                {number}. <SanitizedText text={headline(suggestion)} />
              </Text>
              {STATE_LABELS[state] !== undefined && (
                <Badge variant="light" color="yellow">
                  {STATE_LABELS[state]}
                </Badge>
              )}
            </Group>
            <Secondary size="sm">
              <SanitizedText text={gainText(suggestion)} />
            </Secondary>
            <Secondary size="xs">{costText(suggestion)}</Secondary>
          </div>
        </Group>
      </Accordion.Control>
      <Accordion.Panel>
        <Stack gap="sm">
          <CostTable suggestion={suggestion} />
          {requiredNumbers.length > 0 && (
            <Text size="sm">
              Requires {requiredNumbers.length === 1 ? "suggestion" : "suggestions"}{" "}
              {formatRanges(requiredNumbers)} first.
            </Text>
          )}
          {suggestion.omitted_fields.length > 0 && (
            <Text size="sm">
              Does not help searches by{" "}
              <SanitizedText
                text={suggestion.omitted_fields.map(({ map, name }) => refOf(map, name)).join(", ")}
              />
              .
            </Text>
          )}
          <Statements statements={suggestion.statements} />
          {suggestion.follow_up.length > 0 && (
            <>
              <Text size="sm">After ClickHouse has finished:</Text>
              <Statements statements={suggestion.follow_up} />
            </>
          )}
          {suggestion.bind_trace_index != null && (
            <Text size="sm">
              Then choose <SanitizedText text={suggestion.bind_trace_index} /> as trace index in the binding.
            </Text>
          )}
          {state === "building" && (
            <Text size="sm">ClickHouse is building it in the background. Refresh later.</Text>
          )}
          {disk_bytes == null && <Secondary size="xs">The disk usage could not be estimated.</Secondary>}
        </Stack>
      </Accordion.Panel>
    </Accordion.Item>
  );
}

function CostTable({ suggestion }: { suggestion: Suggestion }) {
  const { reads_before: before, reads_after: after, disk_bytes, measured_on } = suggestion;
  if (before == null && after == null && disk_bytes == null) {
    return null;
  }
  const text = (value: number | null | undefined, format: (value: number) => string) =>
    value == null ? "–" : format(value);
  const rows = [
    ["Rows", text(before?.rows, formatCount), text(after?.rows, formatCount)],
    ["Bytes", text(before?.bytes, formatBytes), text(after?.bytes, formatBytes)],
    ...(disk_bytes == null ? [] : [["Disk usage", "–", formatBytes(disk_bytes)]]),
  ];
  return (
    <div>
      <div className={classes.scroll} style={{ maxWidth: 520 }}>
        <Table verticalSpacing={4} aria-label="Costs and savings">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Reads</Table.Th>
              <Table.Th className={classes.number}>Before</Table.Th>
              <Table.Th className={classes.number}>After</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map(([name, before, after]) => (
              <Table.Tr key={name}>
                <Table.Td>{name}</Table.Td>
                <Table.Td className={classes.number}>{before}</Table.Td>
                <Table.Td className={classes.number}>{after}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      {measured_on !== "" && (
        <Text size="xs" c="dimmed" mt={4}>
          Estimated on <SanitizedText text={measured_on} />
        </Text>
      )}
    </div>
  );
}

function Statements({ statements }: { statements: string[] }) {
  return statements.map((statement) => (
    <Group key={statement} gap="xs" wrap="nowrap" align="start">
      <pre className={classes.statement} style={{ flex: 1, minWidth: 0 }}>
        <SanitizedText text={`${statement};`} />
      </pre>
      <CopyButton value={`${statement};`} name="statement" />
    </Group>
  ));
}

function ExistingStructures({ structures }: { structures: Api["DdlInPlace"][] }) {
  return (
    <section aria-labelledby="in-place">
      <Title order={3} id="in-place" mb="xs">
        Already in place
      </Title>
      <div className={classes.scroll}>
        <Table verticalSpacing={6} aria-labelledby="in-place">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Kind</Table.Th>
              <Table.Th>Name in the table</Table.Th>
              <Table.Th className={classes.number}>Disk</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {structures.map(({ id, kind, name, disk_bytes }) => (
              <Table.Tr key={`${id} ${name}`}>
                <Table.Td>{KIND_LABELS[kind] ?? kind}</Table.Td>
                <Table.Td className={classes.name}>
                  <SanitizedText text={name} />
                </Table.Td>
                <Table.Td className={classes.number}>
                  {disk_bytes == null ? "–" : formatBytes(disk_bytes)}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
    </section>
  );
}
