import { Button, Group, List, Stack, Stepper, Text, Title } from "@mantine/core";
import { IconCircleCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import type { Api } from "../../api/client";
import { useMe } from "../../app/useMe";
import { AdminOnly } from "../../components/AdminOnly";
import { MessageList } from "../../components/MessageList";
import { Notice } from "../../components/Notice";
import { PageTitle } from "../../components/PageTitle";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { UnsavedChangesPrompt } from "../../components/UnsavedChangesPrompt";
import { countOf } from "../../lib/numbers";
import { ColumnsStep } from "./ColumnsStep";
import { type BindingDraft, draftOf, sameDraft } from "./columns";
import { DdlSuggestions } from "./DdlSuggestions";
import { FieldsStep } from "./FieldsStep";
import { schemaQuery, tableQuery } from "./queries";
import { EMPTY_ROLE_DRAFT, type RoleDraft, RoleStep } from "./RoleStep";
import { StepBar } from "./StepBar";
import classes from "./source.module.css";
import { TableStep } from "./TableStep";
import { STEPS, type Step } from "./url";
import { useFieldChanges } from "./useFieldChanges";

const route = getRouteApi("/app/source/setup");

const STEP_TEXTS: Record<Exclude<Step, "done">, { label: string; description: string; title: string }> = {
  table: { label: "Table", description: "with the spans", title: "Which table holds the spans?" },
  columns: { label: "Columns", description: "with ids and times", title: "Map the columns" },
  fields: { label: "Fields", description: "for searches and policies", title: "Which fields may be used?" },
  role: {
    label: "Role",
    description: "to see traces yourself",
    title: "Which traces do you want to see yourself?",
  },
  speed: { label: "Performance", description: "optional", title: "What makes searches faster?" },
};

/** Setup wizard, from the table to the first trace. */
export function SetupPage() {
  return (
    <>
      <PageTitle title="Set up the trace source" />
      <AdminOnly>
        <Setup />
      </AdminOnly>
    </>
  );
}

function Setup() {
  const url = route.useSearch();
  const navigate = route.useNavigate();
  const schema = useQuery(schemaQuery);
  const edit = useFieldChanges(schema.data);
  const [columns, setColumns] = useState<Record<string, BindingDraft>>({});
  const [role, setRole] = useState<RoleDraft>(EMPTY_ROLE_DRAFT);
  const [warnings, setWarnings] = useState<string[]>([]);
  const step = url.step ?? "table";
  const heading = useHeadingFocus(step);

  if (schema.error !== null || schema.data === undefined) {
    return <QueryPlaceholder query={schema} label="the trace source" height={260} />;
  }
  const { model } = schema.data;
  const bound = model.binding ?? null;
  const selected =
    url.database !== undefined && url.table !== undefined
      ? { database: url.database, table: url.table }
      : bound === null
        ? null
        : { database: bound.database, table: bound.table };
  const isBound = bound !== null && selected?.database === bound.database && selected.table === bound.table;
  const stepIndex = STEPS.indexOf(step);
  // Later steps require a bound table. After another table is selected, it must be bound first.
  const lastReachable = isBound ? STEPS.length - 1 : selected === null ? 0 : 1;
  const shownStep = STEPS[Math.min(stepIndex, lastReachable)] ?? "table";
  const draft = selected === null ? null : (columns[JSON.stringify(selected)] ?? null);
  const goTo = (to: Step, table = selected) => {
    void navigate({ search: { step: to, ...(table ?? {}) } });
  };
  const columnsChanged = draft !== null && !sameDraft(draft, draftOf(isBound ? bound : null));
  return (
    <Stack gap="lg" maw={1240}>
      <div className={classes.steps}>
        <Stepper
          active={STEPS.indexOf(shownStep)}
          onStepClick={(to) => goTo(STEPS[to] ?? "table")}
          size="sm"
          iconSize={32}
          wrap={false}
          aria-label="Steps"
        >
          {STEPS.filter((stepName) => stepName !== "done").map((stepName, index) => (
            <Stepper.Step
              key={stepName}
              label={STEP_TEXTS[stepName].label}
              description={STEP_TEXTS[stepName].description}
              allowStepSelect={index <= lastReachable}
              aria-current={stepName === shownStep ? "step" : undefined}
            />
          ))}
        </Stepper>
      </div>
      {shownStep !== "done" && (
        <Title order={2} ref={heading} tabIndex={-1} style={{ outline: "none" }}>
          {STEP_TEXTS[shownStep].title}
        </Title>
      )}
      {shownStep === "table" && (
        <TableStep
          selected={selected}
          bound={bound}
          onChoose={(database, table) => goTo("columns", { database, table })}
        />
      )}
      {shownStep === "columns" && selected !== null && (
        <ColumnsStep
          key={JSON.stringify(selected)}
          selected={selected}
          draft={draft}
          onDraft={(next) => setColumns((previous) => ({ ...previous, [JSON.stringify(selected)]: next }))}
          onBack={() => goTo("table")}
          onBound={(newWarnings) => {
            setWarnings(newWarnings);
            setColumns({});
            goTo("fields");
          }}
        />
      )}
      {shownStep === "fields" && bound !== null && (
        <>
          <Warnings warnings={warnings} />
          <FieldsStep
            model={model}
            binding={bound}
            edit={edit}
            onBack={() => goTo("columns")}
            onNext={() => goTo("role")}
          />
        </>
      )}
      {shownStep === "role" && bound !== null && (
        <RoleStepWithExamples
          model={model}
          binding={bound}
          draft={role}
          onDraft={setRole}
          onBack={() => goTo("fields")}
          onNext={() => goTo("speed")}
        />
      )}
      {shownStep === "speed" && (
        <Stack gap="lg">
          <DdlSuggestions />
          <StepBar hint="This can be done later under Trace source, Performance.">
            <Button variant="default" onClick={() => goTo("role")}>
              Back
            </Button>
            <Button onClick={() => goTo("done")}>Finish</Button>
          </StepBar>
        </Stack>
      )}
      {shownStep === "done" && <SetupDone model={model} />}
      <UnsavedChangesPrompt when={edit.diff.length > 0 || columnsChanged} />
    </Stack>
  );
}

/** Moves the focus to the heading of the new step, so that keyboard users and screen readers start there. */
function useHeadingFocus(step: Step) {
  const heading = useRef<HTMLHeadingElement>(null);
  const previousStep = useRef(step);
  useEffect(() => {
    if (previousStep.current !== step) {
      previousStep.current = step;
      heading.current?.focus();
    }
  }, [step]);
  return heading;
}

function Warnings({ warnings }: { warnings: string[] }) {
  return warnings.length === 0 ? null : (
    <Notice kind="warning" title="The table is bound, with warnings">
      <MessageList messages={warnings} />
    </Notice>
  );
}

/** The role step, with example values from the sample of the previous step. */
function RoleStepWithExamples({
  binding,
  ...rest
}: Omit<Parameters<typeof RoleStep>[0], "examplesOf"> & { binding: Api["Binding"] }) {
  const { data } = useQuery(tableQuery(binding.database, binding.table));
  const examplesOf = (map: string, name: string) =>
    data?.maps.find((sampledMap) => sampledMap.map === map)?.keys.find((key) => key.name === name)
      ?.examples ?? [];
  return <RoleStep {...rest} examplesOf={examplesOf} />;
}

function SetupDone({ model }: { model: Api["AccessModel"] }) {
  const me = useMe();
  const roles = me.roles.filter((role) => role !== "admin");
  return (
    <Stack gap="md" align="start">
      <Group gap="xs">
        <IconCircleCheck size={28} color="var(--mantine-color-green-7)" aria-hidden />
        <Title order={2}>The trace source is set up</Title>
      </Group>
      <List>
        <List.Item>
          Traces come from{" "}
          <Text span inherit className={classes.name}>
            <SanitizedText text={`${model.binding?.database ?? ""}.${model.binding?.table ?? ""}`} />
          </Text>
          .
        </List.Item>
        <List.Item>
          Searchable: {countOf(model.fields.filter(({ filterable }) => filterable).length, "field")}. Usable
          in policies: {countOf(model.fields.filter(({ policy }) => policy).length, "field")}.
        </List.Item>
        <List.Item>
          {roles.length === 0
            ? "You have no role that grants access to traces: you cannot see any until you have one."
            : `You see the traces of ${roles.length === 1 ? "this role" : "these roles"}: ${roles.join(", ")}.`}
        </List.Item>
      </List>
      <Group>
        <Button component={Link} to="/search">
          Search traces
        </Button>
        <Button component={Link} to="/users" variant="default">
          Add users
        </Button>
        <Button component={Link} to="/roles" variant="default">
          Create roles for them
        </Button>
        <Button component={Link} to="/source" variant="default">
          Trace source
        </Button>
      </Group>
    </Stack>
  );
}
