import { Button, Stack, Tabs, Text } from "@mantine/core";
import { IconDatabase } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { Api } from "../../api/client";
import { AdminOnly } from "../../components/AdminOnly";
import { EmptyState } from "../../components/EmptyState";
import { PageTitle } from "../../components/PageTitle";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { UnsavedChangesPrompt } from "../../components/UnsavedChangesPrompt";
import { BindingView } from "./BindingView";
import { DdlSuggestions } from "./DdlSuggestions";
import { FieldsEditor } from "./FieldsEditor";
import { keyColumns } from "./fields";
import { ddlQuery, schemaQuery, tableQuery } from "./queries";
import { SaveBar } from "./SaveBar";
import classes from "./source.module.css";
import { TABS } from "./url";
import { useFieldChanges } from "./useFieldChanges";

const route = getRouteApi("/app/source");

/** Configuration of the trace source after the setup. */
export function SourcePage() {
  return (
    <>
      <PageTitle title="Trace source" />
      <AdminOnly>
        <Source />
      </AdminOnly>
    </>
  );
}

function Source() {
  const query = useQuery(schemaQuery);
  const { data } = query;
  if (data === undefined) {
    return <QueryPlaceholder query={query} label="the trace source" height={260} />;
  }
  const { binding } = data.model;
  if (binding == null) {
    return (
      <EmptyState title="No trace table is bound yet" icon={<IconDatabase size={32} aria-hidden />}>
        Choose the ClickHouse table that holds your spans, the searchable fields, and a first role. It takes a
        few minutes, and nothing in ClickHouse is changed.
        <br />
        <Button component={Link} to="/source/setup" mt="md">
          Set up the trace source
        </Button>
      </EmptyState>
    );
  }
  return <BoundSource schema={data} binding={binding} />;
}

function BoundSource({
  schema,
  binding,
}: {
  schema: { model: Api["AccessModel"]; etag: string };
  binding: Api["Binding"];
}) {
  const { tab = "fields", find } = route.useSearch();
  const navigate = route.useNavigate();
  const edit = useFieldChanges(schema);
  const { model } = schema;
  return (
    <Stack gap="md">
      <Text>
        <Text span inherit className={classes.name} fw={600}>
          <SanitizedText text={`${binding.database}.${binding.table}`} />
        </Text>{" "}
        <Secondary>· version {model.version} of the access model</Secondary>
      </Text>
      <Tabs
        value={tab}
        onChange={(value) => {
          const to = TABS.find((tabName) => tabName === value);
          void navigate({ search: to === undefined || to === "fields" ? {} : { tab: to }, replace: true });
        }}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="fields">
            Fields ({model.fields.length}
            {edit.diff.length > 0 ? ", changed" : ""})
          </Tabs.Tab>
          <Tabs.Tab value="binding">Table and columns</Tabs.Tab>
          <Tabs.Tab value="speed">Performance</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="fields">
          <FieldsTab model={model} binding={binding} edit={edit} find={find} />
        </Tabs.Panel>
        <Tabs.Panel value="binding">
          <BindingView binding={binding} version={model.version} />
        </Tabs.Panel>
        <Tabs.Panel value="speed">
          <DdlSuggestions />
        </Tabs.Panel>
      </Tabs>
      <UnsavedChangesPrompt when={edit.diff.length > 0} />
    </Stack>
  );
}

function FieldsTab({
  model,
  binding,
  edit,
  find,
}: {
  model: Api["AccessModel"];
  binding: Api["Binding"];
  edit: ReturnType<typeof useFieldChanges>;
  /** Text that the listed fields contain at first. */
  find: string | undefined;
}) {
  const [onlyMarked, setOnlyMarked] = useState(true);
  // Example values are span data, and reading them is audited. They are fetched only when the user asks for more than the defined
  // fields.
  const detail = useQuery({ ...tableQuery(binding.database, binding.table), enabled: !onlyMarked });
  const ddl = useQuery(ddlQuery);
  const columnsOf = useMemo(
    () => keyColumns(ddl.data?.in_place ?? [], model.fields),
    [ddl.data, model.fields],
  );
  return (
    <>
      {!onlyMarked && detail.isPending && (
        <QueryPlaceholder query={detail} label="a sample of spans" height={260} />
      )}
      <FieldsEditor
        model={model}
        binding={binding}
        sample={detail}
        edit={edit}
        columnsOf={columnsOf}
        onlyMarked={onlyMarked}
        onOnlyMarked={setOnlyMarked}
        initialText={find ?? ""}
      />
      <SaveBar
        edit={edit}
        save={
          <Button loading={edit.isSaving} disabled={edit.diff.length === 0} onClick={() => edit.save()}>
            Save changes
          </Button>
        }
      />
    </>
  );
}
