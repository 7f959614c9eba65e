import { Alert, Button, Group, Select, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconInfoCircle } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { ApiError, api, ask } from "../../api/client";
import { queryClient } from "../../api/queries";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Visible } from "../../components/Visible";
import { visible } from "../../lib/visible";
import {
  bindingOf,
  DISPLAYED,
  type Draft,
  doubled,
  draftOf,
  indexCandidates,
  STRUCTURAL,
  sameDraft,
} from "./columns";
import { IntoView } from "./IntoView";
import { Loading } from "./Loading";
import { schemaQuery, sourceChanged, tableQuery, tablesQuery } from "./queries";
import { memberErrors } from "./refusals";
import { StepBar } from "./StepBar";
import classes from "./source.module.css";

type Chosen = { database: string; table: string };

/** Step that maps the columns of the table. */
export function ColumnsStep({
  chosen,
  draft,
  onDraft,
  onBack,
  onBound,
}: {
  chosen: Chosen;
  /** Earlier selections on this step, or `null`. */
  draft: Draft | null;
  onDraft: (draft: Draft) => void;
  onBack: () => void;
  /** Called with the service's warnings about the stored binding. */
  onBound: (warnings: string[]) => void;
}) {
  const { database, table } = chosen;
  const schema = useQuery(schemaQuery);
  const tables = useQuery(tablesQuery);
  const detail = useQuery(tableQuery(database, table));
  const bound = schema.data?.model.binding ?? null;
  const sameTable = bound?.database === database && bound.table === table;
  const proposal =
    tables.data?.find((other) => other.database === database && other.name === table)?.proposal ?? null;
  const start = draftOf(sameTable ? bound : proposal);
  const now = draft ?? start;
  const binding = bindingOf(database, table, now);
  const isChange = !sameTable || !sameDraft(now, draftOf(bound));

  const bind = useMutation({
    mutationFn: async () => {
      if (binding === null || schema.data === undefined) {
        return [];
      }
      const header = bound === null ? {} : { "If-Match": schema.data.tag };
      const answer = await ask(api.PUT("/schema/binding", { body: binding, params: { header } }));
      await sourceChanged();
      return answer.warnings;
    },
    onSuccess: onBound,
    // After a conflict, reload the binding and its tag.
    onError: () => void queryClient.invalidateQueries({ queryKey: schemaQuery.queryKey, exact: true }),
  });
  const errors = memberErrors(bind.error);

  const failed = [schema, tables, detail].find((query) => query.error !== null);
  if (failed !== undefined) {
    return (
      <Stack>
        <ErrorNotice error={failed.error} onRetry={() => void failed.refetch()} />
        <Group>
          <Button variant="default" onClick={onBack}>
            Back
          </Button>
        </Group>
      </Stack>
    );
  }
  if (schema.data === undefined || tables.data === undefined || detail.data === undefined) {
    return <Loading what="columns" />;
  }
  const columns = detail.data.columns;
  const set = (member: keyof Draft, value: string | null) => {
    bind.reset();
    onDraft({ ...now, [member]: value ?? "" });
  };
  const twice = doubled(now);
  const choices = (fits: (column: (typeof columns)[number]) => boolean, chosenNow: string) => {
    const fitting = columns.filter(fits);
    const data = fitting.map((column) => ({
      value: column.name,
      label: `${visible(column.name)} · ${visible(column.type)}`,
    }));
    // A bound column stays visible, even if it no longer exists.
    return chosenNow === "" || fitting.some((column) => column.name === chosenNow)
      ? data
      : [...data, { value: chosenNow, label: `${visible(chosenNow)} · does not fit` }];
  };
  const indexes = indexCandidates(tables.data, database, table);
  return (
    <Stack gap="lg">
      <Text maw={720}>
        Map the columns of{" "}
        <Text span className={classes.name}>
          <Visible text={`${database}.${table}`} />
        </Text>
        .{" "}
        {draft === null && proposal !== null && !sameTable
          ? "They were recognised by name and type. Please check."
          : "Only columns whose type fits are offered."}
      </Text>
      {bind.error !== null && (
        <IntoView of={bind.error}>
          {bind.error instanceof ApiError && bind.error.status === 412 ? (
            <Alert
              role="alert"
              color="yellow"
              variant="light"
              icon={<IconAlertTriangle aria-hidden />}
              title="Another user changed the trace source"
            >
              The current binding was loaded; your choices are kept and not saved yet. Check them and try
              again.
            </Alert>
          ) : (
            <ErrorNotice error={bind.error} title="The table could not be bound" />
          )}
        </IntoView>
      )}
      <section aria-labelledby="structural">
        <Title order={3} id="structural" mb="xs">
          Required
        </Title>
        <div className={classes.parts}>
          {STRUCTURAL.map(({ member, label, purpose, fits, wanted }) => (
            <Select
              key={member}
              label={label}
              description={purpose}
              placeholder={`Choose ${wanted}`}
              nothingFoundMessage={`The table has no other suitable column: ${wanted} is required.`}
              required
              searchable
              data={choices(fits, now[member])}
              value={now[member] === "" ? null : now[member]}
              onChange={(value) => set(member, value)}
              error={
                errors.get(`/${member}`) ??
                (twice.includes(member) ? "Chosen twice: each of these needs its own column." : undefined)
              }
            />
          ))}
        </div>
      </section>
      <section aria-labelledby="displayed">
        <Title order={3} id="displayed" mb={4}>
          For display
        </Title>
        <Text size="sm" c="var(--tw-quiet)" mb="xs">
          Optional. Results and traces show less without them.
        </Text>
        <div className={classes.parts}>
          {DISPLAYED.map(({ member, label, purpose, fits, wanted }) => (
            <Select
              key={member}
              label={label}
              description={purpose}
              placeholder={`None; choose ${wanted}`}
              nothingFoundMessage={`The table has no suitable column: ${wanted} is required.`}
              searchable
              clearable
              clearButtonProps={{ "aria-hidden": false, tabIndex: 0, "aria-label": `Clear ${label}` }}
              data={choices(fits, now[`display_${member}`])}
              value={now[`display_${member}`] === "" ? null : now[`display_${member}`]}
              onChange={(value) => set(`display_${member}`, value)}
              error={errors.get(`/display/${member}`)}
            />
          ))}
          <Select
            label="Trace index"
            description="A table with the first and last time of each trace (TraceId, Start, End). Whole traces are found faster, and regardless of their duration."
            placeholder="None"
            nothingFoundMessage="The database has no other table."
            searchable
            clearable
            clearButtonProps={{ "aria-hidden": false, tabIndex: 0, "aria-label": "Clear trace index" }}
            data={[...new Set([...indexes, ...(now.trace_index === "" ? [] : [now.trace_index])])].map(
              (name) => ({
                value: name,
                label: visible(name),
              }),
            )}
            value={now.trace_index === "" ? null : now.trace_index}
            onChange={(value) => set("trace_index", value)}
            error={errors.get("/trace_index")}
          />
        </div>
      </section>
      {bound !== null && isChange && <Rebinding from={bound} sameTable={sameTable} />}
      <StepBar hint={binding === null ? "Choose the four required columns." : null}>
        <Button variant="default" onClick={onBack}>
          Back
        </Button>
        {draft !== null && !sameDraft(draft, start) && (
          <Button
            variant="default"
            onClick={() => {
              bind.reset();
              onDraft(start);
            }}
          >
            {sameTable ? "Undo changes" : "Reset to the proposal"}
          </Button>
        )}
        <Button
          loading={bind.isPending}
          disabled={binding === null || twice.length > 0}
          color={bound !== null && isChange && !sameTable ? "red" : "brand"}
          onClick={() => (isChange ? bind.mutate() : onBound([]))}
        >
          {bound === null ? "Bind and continue" : isChange ? "Replace the binding and continue" : "Continue"}
        </Button>
      </StepBar>
    </Stack>
  );
}

function Rebinding({ from, sameTable }: { from: Chosen; sameTable: boolean }) {
  return sameTable ? (
    <Alert
      icon={<IconInfoCircle aria-hidden />}
      color="blue"
      variant="light"
      title="This changes the binding for all users"
    >
      It takes effect on the next request. Running searches have to be started again.
    </Alert>
  ) : (
    <Alert
      icon={<IconAlertTriangle aria-hidden />}
      color="orange"
      variant="light"
      title="This replaces the table that all users search"
    >
      <Visible text={`${from.database}.${from.table}`} /> is bound now. From the next request on, all users
      search the new table; roles and policies stay and apply to it. If the new table lacks a marked field,
      the change is rejected. Policies with an adopted column read the map again until the column is adopted
      again. Running searches have to be started again.
    </Alert>
  );
}
