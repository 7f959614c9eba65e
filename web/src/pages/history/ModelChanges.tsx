import { Badge, Group, Paper, Stack, Text, Title } from "@mantine/core";
import type { Api } from "../../api/client";
import { SanitizedText } from "../../components/SanitizedText";
import { PolicyDiff } from "../roles/RoleDiff";
import { groupChanges, policiesOf, policyDifference, textOf } from "./changes";
import { LineDiff } from "./LineDiff";

type ModelChange = Api["ModelChange"];

const COLOURS = { added: "green", removed: "red", changed: "blue", moved: "gray" } as const;

/** The differences between two versions of the access model. */
export function ModelChanges({ changes }: { changes: readonly ModelChange[] }) {
  const { source, roles, mappings, tests } = groupChanges(changes);
  if (changes.length === 0) {
    return <Text size="sm">No differences.</Text>;
  }
  return (
    <Stack gap="lg">
      <ChangeList title="Trace source" changes={source} />
      {roles.map(({ name, roleChange, policies }) => (
        <div key={name}>
          <Group gap="xs" mb="xs">
            <Title order={3} style={{ overflowWrap: "anywhere" }}>
              Role <SanitizedText text={name} />
            </Title>
            {roleChange !== null && <ChangeBadge change={roleChange.change} />}
          </Group>
          <Stack gap="sm">
            {roleChange !== null &&
              policiesOf(roleChange).map((difference) => (
                <PolicyDiff key={`${difference.kind} ${difference.policy.key}`} difference={difference} />
              ))}
            {policies.map((change, index) => {
              const difference = policyDifference(change);
              const key = `${index} ${change.name}`;
              return difference === null ? (
                <ChangeCard key={key} change={change} />
              ) : (
                <PolicyDiff key={key} difference={difference} />
              );
            })}
          </Stack>
        </div>
      ))}
      <ChangeList title="Mappings of identity providers" changes={mappings} />
      <ChangeList title="Tests" changes={tests} />
    </Stack>
  );
}

function ChangeList({ title, changes }: { title: string; changes: readonly ModelChange[] }) {
  return (
    changes.length > 0 && (
      <div>
        <Title order={3} mb="xs">
          {title}
        </Title>
        <Stack gap="sm">
          {changes.map((change) => (
            <ChangeCard key={`${change.kind} ${change.name} ${change.change}`} change={change} />
          ))}
        </Stack>
      </div>
    )
  );
}

function ChangeBadge({ change }: { change: ModelChange["change"] }) {
  return (
    <Badge variant="light" color={COLOURS[change]} c="var(--mantine-color-text)">
      {change}
    </Badge>
  );
}

function ChangeCard({ change }: { change: ModelChange }) {
  const { kind, name } = change;
  return (
    <Paper component="section" withBorder p="sm" aria-label={`${kind} ${change.change}`}>
      <Group gap="xs" mb={6}>
        <ChangeBadge change={change.change} />
        <Text size="sm" fw={500} style={{ overflowWrap: "anywhere" }}>
          {kind === "binding" ? (
            "Binding of the trace table"
          ) : kind === "tests" ? (
            "Tests of the policies"
          ) : (
            <SanitizedText text={name} />
          )}
        </Text>
      </Group>
      {change.change === "moved" ? (
        <Text size="sm">Only its position changed, which does not affect access.</Text>
      ) : (
        <LineDiff
          before={textOf(change.before)}
          after={textOf(change.after)}
          label={`Changes of the ${kind}`}
        />
      )}
    </Paper>
  );
}
