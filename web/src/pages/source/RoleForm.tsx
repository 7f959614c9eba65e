import { Group, Radio, Select, Stack, TagsInput, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { Notice } from "../../components/Notice";
import { renderValuePill } from "../../components/renderValuePill";
import { PolicyEditor } from "../../editor/PolicyEditor";
import { sanitize } from "../../lib/sanitize";
import type { MarkedField } from "./fields";
import type { RoleChoice } from "./templates";

/** The access of the role, as a choice and as the resulting expression. */
export function RoleForm({
  fields,
  choice,
  expression,
  title,
  name,
  nameError,
  examplesOf,
  onChoice,
  onTitle,
  onName,
}: {
  fields: MarkedField[];
  choice: RoleChoice;
  /** The typed text, including surrounding spaces. */
  expression: string;
  title: string;
  name: string;
  nameError: string | null;
  examplesOf: (map: string, name: string) => string[];
  onChoice: (choice: RoleChoice) => void;
  onTitle: (title: string) => void;
  onName: (name: string) => void;
}) {
  const [first] = fields;
  return (
    <Stack gap="md" maw={760}>
      <Radio.Group
        label="Which traces should the role grant access to?"
        value={choice.kind}
        onChange={(kind) => {
          if (kind === "everything") {
            onChoice({ kind });
          } else if (kind === "own") {
            onChoice({ kind, expression });
          } else if (first !== undefined) {
            onChoice({ kind: "values", ref: first.ref, values: [] });
          }
        }}
      >
        <Stack gap="xs" mt="xs">
          <Radio
            value="values"
            label="Traces by a value, such as one environment, team or service"
            description={
              fields.length === 0
                ? "No field is usable in policies. Go back one step to mark some."
                : "A trace is shown whole when any of its spans has the value."
            }
            disabled={fields.length === 0}
          />
          <Radio
            value="everything"
            label="Every trace"
            description="For a test, or if all users may see everything."
          />
          <Radio
            value="own"
            label="An expression of my own"
            description="In CEL, with the fields that are usable in policies."
          />
        </Stack>
      </Radio.Group>
      {choice.kind === "values" && (
        <ValuesSelect fields={fields} choice={choice} examplesOf={examplesOf} onChoice={onChoice} />
      )}
      {choice.kind === "everything" && (
        <Notice kind="warning" title="Users with this role see every trace of the table">
          This includes all future traces, of any customer or team. Assign it to few users.
        </Notice>
      )}
      <PolicyEditor
        label="Policy"
        description={
          choice.kind === "own"
            ? `For example: ${sanitize(fields.find(({ type }) => type === "string")?.ref ?? "ServiceName")} == "checkout"`
            : "The choice above in CEL. Edit it to write your own."
        }
        value={expression}
        onChange={(expression) => onChoice({ kind: "own", expression })}
      />
      <Group grow align="start" preventGrowOverflow={false}>
        <TextInput
          label="Title of the policy"
          description="Explains its purpose to other administrators."
          value={title}
          onChange={(event) => onTitle(event.currentTarget.value)}
          miw={220}
        />
        <TextInput
          label="Name of the role"
          description="Roles are assigned to users by this name."
          value={name}
          onChange={(event) => onName(event.currentTarget.value)}
          error={nameError}
          miw={220}
        />
      </Group>
    </Stack>
  );
}

function ValuesSelect({
  fields,
  choice,
  examplesOf,
  onChoice,
}: {
  fields: MarkedField[];
  choice: RoleChoice & { kind: "values" };
  examplesOf: (map: string, name: string) => string[];
  onChoice: (choice: RoleChoice) => void;
}) {
  const field = fields.find(({ ref }) => ref === choice.ref);
  const { data } = useQuery({
    queryKey: ["filter-values", choice.ref, "first role"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/filter/values", { signal, params: { query: { ref: choice.ref, limit: 50 } } })),
    enabled: field?.filterable === true && field.type !== "boolean",
    // Suggested values come from visible traces only. Without any, the examples of the sample are used.
    retry: false,
  });
  const storedValues = (data?.values ?? []).map(({ value }) => value);
  const examples = field === undefined ? [] : examplesOf(field.map, field.name);
  const values = [...new Set([...storedValues, ...examples])].filter((value) => value !== "");
  return (
    <Group grow align="start" preventGrowOverflow={false}>
      <Select
        label="Field"
        miw={220}
        searchable
        allowDeselect={false}
        data={fields.map(({ ref }) => ({ value: ref, label: sanitize(ref) }))}
        value={choice.ref}
        onChange={(ref) => {
          if (ref !== null) {
            onChoice({ kind: "values", ref, values: [] });
          }
        }}
      />
      {field?.type === "boolean" ? (
        <Text size="sm" mt={30} miw={220}>
          Grants access to traces with a span on which this is true.
        </Text>
      ) : (
        <TagsInput
          label="Values"
          miw={220}
          placeholder={
            choice.values.length > 0 ? "" : values.length > 0 ? "Choose or type" : "Type, then press Enter"
          }
          data={values}
          value={choice.values}
          onChange={(next) => onChoice({ ...choice, values: next })}
          renderOption={({ option }) => sanitize(option.value)}
          acceptValueOnBlur
          maxDropdownHeight={280}
          splitChars={[]}
          renderPill={renderValuePill}
        />
      )}
    </Group>
  );
}
