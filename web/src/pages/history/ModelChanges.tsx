import { Badge, Group, Paper, Stack, Text, Title } from "@mantine/core";
import type { Api } from "../../api/client";
import { Visible } from "../../components/Visible";
import { OnePolicy } from "../roles/Differences";
import { grouped, policiesOf, policyDifference, textOf } from "./changes";
import { LineDifferences } from "./LineDifferences";

type ModelChange = Api["ModelChange"];

const COLOURS = { added: "green", removed: "red", changed: "blue", moved: "gray" } as const;

/** The differences between two versions of the access model. */
export function ModelChanges({ changes }: { changes: readonly ModelChange[] }) {
  const { source, roles, tests } = grouped(changes);
  if (changes.length === 0) {
    return <Text size="sm">No differences.</Text>;
  }
  return (
    <Stack gap="lg">
      {source.length > 0 && (
        <div>
          <Title order={3} mb="xs">
            Trace source
          </Title>
          <Stack gap="sm">
            {source.map((change) => (
              <OneChange key={`${change.kind} ${change.name}`} change={change} />
            ))}
          </Stack>
        </div>
      )}
      {roles.map(({ name, own, policies }) => (
        <div key={name}>
          <Group gap="xs" mb="xs">
            <Title order={3} style={{ overflowWrap: "anywhere" }}>
              Role <Visible text={name} />
            </Title>
            {own !== null && <Kind change={own.change} />}
          </Group>
          <Stack gap="sm">
            {own !== null &&
              policiesOf(own).map((difference) => (
                <OnePolicy key={`${difference.kind} ${difference.policy.key}`} difference={difference} />
              ))}
            {policies.map((change, place) => {
              const difference = policyDifference(change);
              const key = `${place} ${change.name}`;
              return difference === null ? (
                <OneChange key={key} change={change} />
              ) : (
                <OnePolicy key={key} difference={difference} />
              );
            })}
          </Stack>
        </div>
      ))}
      {tests.length > 0 && (
        <div>
          <Title order={3} mb="xs">
            Tests
          </Title>
          <Stack gap="sm">
            {tests.map((change) => (
              <OneChange key={`${change.name} ${change.change}`} change={change} />
            ))}
          </Stack>
        </div>
      )}
    </Stack>
  );
}

function Kind({ change }: { change: ModelChange["change"] }) {
  return (
    <Badge variant="light" color={COLOURS[change]} c="var(--mantine-color-text)" tt="none">
      {change}
    </Badge>
  );
}

function OneChange({ change }: { change: ModelChange }) {
  const { kind, name } = change;
  return (
    <Paper component="section" withBorder p="sm" aria-label={`${kind} ${change.change}`}>
      <Group gap="xs" mb={6}>
        <Kind change={change.change} />
        <Text size="sm" fw={500} style={{ overflowWrap: "anywhere" }}>
          {kind === "binding" ? (
            "Binding of the trace table"
          ) : kind === "tests" ? (
            "Tests of the policies"
          ) : (
            <Visible text={name} />
          )}
        </Text>
      </Group>
      {change.change === "moved" ? (
        <Text size="sm">Only its position changed, which does not affect access.</Text>
      ) : (
        <Lines change={change} />
      )}
    </Paper>
  );
}

function Lines({ change: { before, after, kind } }: { change: ModelChange }) {
  return <LineDifferences before={textOf(before)} after={textOf(after)} label={`Changes of the ${kind}`} />;
}
