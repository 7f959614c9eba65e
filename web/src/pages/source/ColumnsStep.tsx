import { Button, Group, NativeSelect, Select, Stack, TagsInput, Text, Title } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { api, hasStatus, ifMatch, unwrap } from "../../api/client";
import { queryClient } from "../../api/queries";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Notice } from "../../components/Notice";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { sanitize } from "../../lib/sanitize";
import { BindingImpact } from "./BindingImpact";
import {
  type BindingDraft,
  bindingOf,
  DISPLAYED_COLUMNS,
  type DraftColumn,
  draftOf,
  duplicateColumns,
  indexCandidates,
  isIntegerTime,
  readsOtherRows,
  replacesRows,
  STRUCTURAL_COLUMNS,
  sameDraft,
  TIME_UNITS,
  type TimeUnit,
} from "./columns";
import { invalidateSource, schemaQuery, tableQuery, tablesQuery } from "./queries";
import { RowsSection } from "./RowsSection";
import { memberErrors } from "./rejection";
import { ScrollIntoView } from "./ScrollIntoView";
import { StepBar } from "./StepBar";
import classes from "./source.module.css";

type TableName = { database: string; table: string };

/** Step that maps the columns of the table. */
export function ColumnsStep({
  selected,
  draft,
  onDraft,
  onBack,
  onBound,
}: {
  selected: TableName;
  /** Earlier selections on this step, or `null`. */
  draft: BindingDraft | null;
  onDraft: (draft: BindingDraft) => void;
  onBack: () => void;
  /** Called with the service's warnings about the stored binding. */
  onBound: (warnings: string[]) => void;
}) {
  const { database, table } = selected;
  const schema = useQuery(schemaQuery);
  const tables = useQuery(tablesQuery);
  const detail = useQuery(tableQuery(database, table));
  const bound = schema.data?.model.binding ?? null;
  const isSameTable = bound?.database === database && bound.table === table;
  const summary = tables.data?.find(
    (candidate) => candidate.database === database && candidate.name === table,
  );
  const proposal = detail.data?.proposal ?? null;
  const initialDraft = draftOf(isSameTable ? bound : proposal);
  const currentDraft = draft ?? initialDraft;
  const binding = bindingOf(database, table, currentDraft);
  const isChange = !isSameTable || !sameDraft(currentDraft, draftOf(bound));

  const bind = useMutation({
    mutationFn: async () => {
      if (binding === null || schema.data === undefined) {
        return [];
      }
      const params = ifMatch(bound === null ? null : schema.data.etag);
      const response = await unwrap(api.PUT("/schema/binding", { body: binding, params }));
      await invalidateSource();
      return response.warnings;
    },
    onSuccess: onBound,
    // After a conflict, reload the binding and its ETag.
    onError: () => void queryClient.invalidateQueries({ queryKey: schemaQuery.queryKey, exact: true }),
  });
  const errors = memberErrors(bind.error);

  const failedQuery = [schema, tables, detail].find((query) => query.error !== null);
  if (failedQuery !== undefined) {
    return (
      <Stack>
        <ErrorNotice error={failedQuery.error} onRetry={() => void failedQuery.refetch()} />
        <Group>
          <Button variant="default" onClick={onBack}>
            Back
          </Button>
        </Group>
      </Stack>
    );
  }
  if (schema.data === undefined || tables.data === undefined || detail.data === undefined) {
    return <QueryPlaceholder query={detail} label="columns" height={260} />;
  }
  const columns = detail.data.columns;
  const change = (changed: Partial<BindingDraft>) => {
    bind.reset();
    onDraft({ ...currentDraft, ...changed });
  };
  const isInteger = columns.some((column) => column.name === currentDraft.timestamp && isIntegerTime(column));
  const setColumn = (member: DraftColumn, value: string | null) => {
    const isUnitNeeded =
      member === "timestamp" && columns.some((column) => column.name === value && isIntegerTime(column));
    change({
      [member]: value ?? "",
      ...(member === "timestamp"
        ? { timestamp_unit: isUnitNeeded ? currentDraft.timestamp_unit || "ns" : "" }
        : {}),
    });
  };
  const engine = summary?.engine ?? "";
  const isReadingChosen = !replacesRows(engine) || currentDraft.read_as !== "";
  const duplicates = duplicateColumns(currentDraft);
  const columnOptions = (fits: (column: (typeof columns)[number]) => boolean, selectedColumn: string) => {
    const suitableColumns = columns.filter(fits);
    const data = suitableColumns.map((column) => ({
      value: column.name,
      label: `${sanitize(column.name)} · ${sanitize(column.type)}`,
    }));
    // A bound column stays visible, even if it no longer exists.
    return selectedColumn === "" || suitableColumns.some((column) => column.name === selectedColumn)
      ? data
      : [...data, { value: selectedColumn, label: `${sanitize(selectedColumn)} · does not fit` }];
  };
  const selectProps = (member: DraftColumn, pointer: string) => ({
    searchable: true,
    value: currentDraft[member] || null,
    onChange: (value: string | null) => setColumn(member, value),
    error: errors.get(pointer),
  });
  const indexes = indexCandidates(tables.data, database, table);
  return (
    <Stack gap="lg">
      <Text maw={720}>
        Map the columns of{" "}
        <Text span className={classes.name}>
          <SanitizedText text={`${database}.${table}`} />
        </Text>
        .{" "}
        {draft === null && proposal !== null && !isSameTable
          ? `They were recognised by name and type${summary?.product == null ? "" : `, as a table of ${summary.product}`}. Please check.`
          : "Only columns whose type fits are offered."}
      </Text>
      {bind.error !== null && (
        <ScrollIntoView trigger={bind.error}>
          {hasStatus(bind.error, 412) ? (
            <Notice kind="warning" title="Another user changed the trace source">
              The current binding was loaded; your choices are kept and not saved yet. Check them and try
              again.
            </Notice>
          ) : (
            <ErrorNotice error={bind.error} title="The table could not be bound" />
          )}
        </ScrollIntoView>
      )}
      <section aria-labelledby="structural">
        <Title order={3} id="structural" mb="xs">
          Required
        </Title>
        <div className={classes.columns}>
          {STRUCTURAL_COLUMNS.map(({ member, label, purpose, isSuitable, requirement }) => (
            <Select
              key={member}
              label={label}
              description={purpose}
              placeholder={`Choose ${requirement}`}
              nothingFoundMessage={`The table has no other suitable column: ${requirement} is required.`}
              required
              data={columnOptions(isSuitable, currentDraft[member])}
              {...selectProps(member, `/${member}`)}
              {...(duplicates.includes(member)
                ? { error: "Chosen twice: each of these needs its own column." }
                : {})}
            />
          ))}
          {isInteger && (
            <UnitSelect
              label="Unit of the timestamp"
              description="The column holds integers. A wrong unit moves all spans to another year."
              value={currentDraft.timestamp_unit || "ns"}
              onChange={(timestamp_unit) => change({ timestamp_unit })}
            />
          )}
        </div>
      </section>
      <section aria-labelledby="displayed">
        <Title order={3} id="displayed" mb={4}>
          For display
        </Title>
        <Text size="sm" c="dimmed" mb="xs">
          Optional. Results and traces show less without them.
        </Text>
        <div className={classes.columns}>
          {DISPLAYED_COLUMNS.map(({ member, label, purpose, isSuitable, requirement }) => (
            <Select
              key={member}
              label={label}
              description={purpose}
              placeholder={`None; choose ${requirement}`}
              nothingFoundMessage={`The table has no suitable column: ${requirement} is required.`}
              clearable
              clearButtonProps={clearButton(label)}
              data={columnOptions(isSuitable, currentDraft[`display_${member}`])}
              {...selectProps(`display_${member}`, `/display/${member}`)}
            />
          ))}
          {currentDraft.display_duration !== "" && (
            <UnitSelect
              label="Unit of the duration"
              description="Durations are shown and compared in it."
              value={currentDraft.duration_unit || "ns"}
              onChange={(unit) => change({ duration_unit: unit === "ns" ? "" : unit })}
            />
          )}
          {currentDraft.display_status !== "" && (
            <TagsInput
              label="Status values of errors"
              description="Error, STATUS_CODE_ERROR and ERROR, if none is given."
              value={currentDraft.error_values}
              onChange={(error_values) => change({ error_values })}
              error={errors.get("/display/error_values")}
            />
          )}
          <Select
            label="Trace index"
            description="A table with the first and last time of each trace (TraceId, Start, End). Whole traces are found faster, and regardless of their duration."
            placeholder="None"
            nothingFoundMessage="The database has no other table."
            clearable
            clearButtonProps={clearButton("trace index")}
            data={[...new Set([...indexes, currentDraft.trace_index])]
              .filter((name) => name !== "")
              .map((name) => ({ value: name, label: sanitize(name) }))}
            {...selectProps("trace_index", "/trace_index")}
          />
        </div>
      </section>
      <RowsSection engine={engine} columns={columns} draft={currentDraft} errors={errors} onChange={change} />
      {bound !== null && isChange && <RebindingNotice from={bound} isSameTable={isSameTable} />}
      {isSameTable &&
        binding !== null &&
        duplicates.length === 0 &&
        isReadingChosen &&
        readsOtherRows(binding, bound) && <BindingImpact binding={binding} etag={schema.data.etag} />}
      <StepBar
        hint={
          binding === null
            ? "Choose the four required columns."
            : isReadingChosen
              ? null
              : "Choose how rows are read that were replaced or deleted."
        }
      >
        <Button variant="default" onClick={onBack}>
          Back
        </Button>
        {draft !== null && !sameDraft(draft, initialDraft) && (
          <Button
            variant="default"
            onClick={() => {
              bind.reset();
              onDraft(initialDraft);
            }}
          >
            {isSameTable ? "Undo changes" : "Reset to the proposal"}
          </Button>
        )}
        <Button
          loading={bind.isPending}
          disabled={binding === null || duplicates.length > 0 || !isReadingChosen}
          color={bound !== null && isChange && !isSameTable ? "red" : "brand"}
          onClick={() => (isChange ? bind.mutate() : onBound([]))}
        >
          {bound === null ? "Bind and continue" : isChange ? "Replace the binding and continue" : "Continue"}
        </Button>
      </StepBar>
    </Stack>
  );
}

function UnitSelect({
  label,
  description,
  value,
  onChange,
}: {
  label: string;
  description: string;
  value: TimeUnit;
  onChange: (unit: TimeUnit) => void;
}) {
  return (
    <NativeSelect
      label={label}
      description={description}
      data={TIME_UNITS}
      value={value}
      onChange={(event) => {
        const unit = TIME_UNITS.find((known) => known.value === event.currentTarget.value);
        if (unit !== undefined) {
          onChange(unit.value);
        }
      }}
    />
  );
}

/** Clear button that is reachable by keyboard. */
const clearButton = (label: string) => ({
  "aria-hidden": false,
  tabIndex: 0,
  "aria-label": `Clear ${label}`,
});

function RebindingNotice({ from, isSameTable }: { from: TableName; isSameTable: boolean }) {
  return isSameTable ? (
    <Notice kind="info" variant="light" title="This changes the binding for all users">
      It takes effect on the next request. Running searches have to be started again.
    </Notice>
  ) : (
    <Notice kind="warning" variant="light" title="This replaces the table that all users search">
      <SanitizedText text={`${from.database}.${from.table}`} /> is bound now. From the next request on, all
      users search the new table; roles and policies stay and apply to it. If the new table lacks a marked
      field, the change is rejected. Policies with an adopted column read the map again until the column is
      adopted again. Running searches have to be started again.
    </Notice>
  );
}
